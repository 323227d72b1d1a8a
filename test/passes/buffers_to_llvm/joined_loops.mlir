// RUN: padc-opt -p convert-buffers-to-llvm %s | filecheck %s
// RUN: padc-opt -p convert-buffers-to-llvm{vector-bytes=64} %s | filecheck %s --check-prefix=WIDE

// One loop stores the terms of a sum and adds them; the first value is stored nowhere.
// CHECK:         %[[TERM:.*]] = llvm.fneg
// CHECK-NEXT:    llvm.getelementptr
// CHECK-NEXT:    llvm.store %[[TERM]]
// CHECK-NOT:     llvm.load
// CHECK:         llvm.fadd %{{.*}}, %[[TERM]]
// CHECK:         llvm.store
// CHECK-NOT:     llvm.store
// CHECK-LABEL: llvm.func @terms
func.func @terms(%x: memref<20x32xf32>, %y: memref<20x32xf32>, %s: memref<20x1xf32>) {
  %z = arith.constant 0.0 : f32
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x : memref<20x32xf32>) outs(%y : memref<20x32xf32>) {
  ^bb0(%e: f32, %o: f32):
    %n = arith.negf %e : f32
    linalg.yield %n : f32
  }
  linalg.fill ins(%z : f32) outs(%s : memref<20x1xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, 0)>], iterator_types = ["parallel", "reduction"]} ins(%y : memref<20x32xf32>) outs(%s : memref<20x1xf32>) {
  ^bb0(%e: f32, %o: f32):
    %n = arith.addf %o, %e : f32
    linalg.yield %n : f32
  }
  func.return
}

// So does one loop for a sum that goes on from its result, which is loaded first.
// CHECK:         %[[OLD:.*]] = llvm.load
// CHECK:         %[[NEXT:.*]] = llvm.fneg
// CHECK-NEXT:    llvm.getelementptr
// CHECK-NEXT:    llvm.store %[[NEXT]]
// CHECK-NOT:     llvm.load
// CHECK:         llvm.fadd %{{.*}}, %[[NEXT]]
// CHECK-LABEL: llvm.func @more_terms
func.func @more_terms(%x: memref<20x32xf64>, %y: memref<20x32xf64>, %s: memref<20x1xf64>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x : memref<20x32xf64>) outs(%y : memref<20x32xf64>) {
  ^bb0(%e: f64, %o: f64):
    %n = arith.negf %e : f64
    linalg.yield %n : f64
  }
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, 0)>], iterator_types = ["parallel", "reduction"]} ins(%y : memref<20x32xf64>) outs(%s : memref<20x1xf64>) {
  ^bb0(%e: f64, %o: f64):
    %n = arith.addf %o, %e : f64
    linalg.yield %n : f64
  }
  func.return
}

// Rows of windows start from a number, which is stored nowhere: the columns of three
// rows are added in memory of the kernel, then those of each window.
// CHECK:       llvm.func internal @kernel_{{.*}}, %[[START:.*]]: f32
// CHECK:         llvm.alloca
// CHECK-NOT:     llvm.store %[[START]]
// CHECK:         llvm.fadd %[[START]]
// CHECK-NOT:     llvm.store %[[START]]
// CHECK-LABEL: llvm.func @windows
func.func @windows(%x: memref<23x69xf32>, %w: memref<4x3xf32>, %y: memref<20x33xf32>) {
  %z = arith.constant 5.0 : f32
  linalg.fill ins(%z : f32) outs(%y : memref<20x33xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, p, q, j) -> (i + p, j * 2 + q)>, affine_map<(i, p, q, j) -> (p, q)>, affine_map<(i, p, q, j) -> (i, j)>], iterator_types = ["parallel", "reduction", "reduction", "parallel"]} ins(%x, %w : memref<23x69xf32>, memref<4x3xf32>) outs(%y : memref<20x33xf32>) {
  ^bb0(%e: f32, %k: f32, %o: f32):
    %n = arith.addf %o, %e : f32
    linalg.yield %n : f32
  }
  func.return
}

// The largest elements are sought so, too, as integers in the same order.
// CHECK:         llvm.alloca %{{.*}} x i32
// CHECK:         llvm.umax.i32
// CHECK-LABEL: llvm.func @largest_of_windows
func.func @largest_of_windows(%x: memref<23x69xf32>, %w: memref<4x3xf32>, %y: memref<20x33xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, p, q, j) -> (i + p, j * 2 + q)>, affine_map<(i, p, q, j) -> (p, q)>, affine_map<(i, p, q, j) -> (i, j)>], iterator_types = ["parallel", "reduction", "reduction", "parallel"]} ins(%x, %w : memref<23x69xf32>, memref<4x3xf32>) outs(%y : memref<20x33xf32>) {
  ^bb0(%e: f32, %k: f32, %o: f32):
    %n = arith.maximumf %o, %e : f32
    linalg.yield %n : f32
  }
  func.return
}

// There are fewer windows than a vector has lanes, which would be 16.
// WIDE-LABEL: llvm.func @largest_of_windows
// WIDE:         llvm.alloca
// WIDE-NOT:     llvm.mlir.constant(16) : i64
// WIDE-LABEL: llvm.func @few_windows
func.func @few_windows(%x: memref<27x19xf32>, %w: memref<5x3xf32>, %y: memref<23x9xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, p, q, j) -> (i + p, j * 2 + q)>, affine_map<(i, p, q, j) -> (p, q)>, affine_map<(i, p, q, j) -> (i, j)>], iterator_types = ["parallel", "reduction", "reduction", "parallel"]} ins(%x, %w : memref<27x19xf32>, memref<5x3xf32>) outs(%y : memref<23x9xf32>) {
  ^bb0(%e: f32, %k: f32, %o: f32):
    %n = arith.maximumf %o, %e : f32
    linalg.yield %n : f32
  }
  func.return
}

// %u takes the place of %t, of which only the first copy knows: rows would be lost.
// CHECK-LABEL: llvm.func @taken_place
// CHECK-COUNT-3: llvm.call
// CHECK-NEXT:    llvm.return
func.func @taken_place(%x: memref<20x40xf32>, %y: memref<20x40xf32>, %arena: memref<?xi8>) {
  %zero = arith.constant 0 : index
  %t = memref.view %arena[%zero][] : memref<?xi8> to memref<20x40xf32>
  %u = memref.view %arena[%zero][] : memref<?xi8> to memref<20x40xf32>
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} outs(%t : memref<20x40xf32>) {
  ^bb0(%o: f32):
    %j = linalg.index 1 : index
    %e = memref.load %x[%zero, %j] : memref<20x40xf32>
    linalg.yield %e : f32
  }
  linalg.copy ins(%t : memref<20x40xf32>) outs(%y : memref<20x40xf32>)
  linalg.copy ins(%y : memref<20x40xf32>) outs(%u : memref<20x40xf32>)
  func.return
}

// It may.
// CHECK-LABEL: llvm.func @unknown_place
// CHECK-COUNT-2: llvm.call
// CHECK-NEXT:    llvm.return
func.func @unknown_place(%x: memref<20x40xf32>, %y: memref<20x40xf32>, %n: index, %arena: memref<?xi8>) {
  %zero = arith.constant 0 : index
  %t = memref.view %arena[%zero][] : memref<?xi8> to memref<20x40xf32>
  %u = memref.view %arena[%n][] : memref<?xi8> to memref<20x40xf32>
  linalg.copy ins(%x : memref<20x40xf32>) outs(%t : memref<20x40xf32>)
  linalg.copy ins(%t : memref<20x40xf32>) outs(%y : memref<20x40xf32>)
  linalg.copy ins(%y : memref<20x40xf32>) outs(%u : memref<20x40xf32>)
  linalg.copy ins(%u : memref<20x40xf32>) outs(%y : memref<20x40xf32>)
  func.return
}

// So may buffers of unknown sizes.
// CHECK-LABEL: llvm.func internal @unknown_sizes_body
// CHECK-COUNT-2: llvm.call @padc_share
// CHECK-LABEL: llvm.func @unknown_sizes
func.func @unknown_sizes(%x: memref<20x?xf32>, %y: memref<20x?xf32>, %n: index, %arena: memref<?xi8>) {
  %zero = arith.constant 0 : index
  %t = memref.view %arena[%zero][%n] : memref<?xi8> to memref<20x?xf32>
  %u = memref.view %arena[%zero][%n] : memref<?xi8> to memref<20x?xf32>
  linalg.copy ins(%x : memref<20x?xf32>) outs(%t : memref<20x?xf32>)
  linalg.copy ins(%t : memref<20x?xf32>) outs(%y : memref<20x?xf32>)
  linalg.copy ins(%y : memref<20x?xf32>) outs(%u : memref<20x?xf32>)
  linalg.copy ins(%u : memref<20x?xf32>) outs(%y : memref<20x?xf32>)
  func.return
}

// The sums of columns share no loop over rows, whatever else they read.
// CHECK-LABEL: llvm.func @columns
// CHECK-COUNT-2: llvm.call
// CHECK-NEXT:    llvm.return
func.func @columns(%x: memref<20x40xf32>, %y: memref<20x40xf32>, %s: memref<1x40xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x : memref<20x40xf32>) outs(%y : memref<20x40xf32>) {
  ^bb0(%v: f32, %o: f32):
    %n = arith.negf %v : f32
    linalg.yield %n : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (0, j)>], iterator_types = ["reduction", "parallel"]} ins(%y : memref<20x40xf32>) outs(%s : memref<1x40xf32>) {
  ^bb0(%v: f32, %o: f32):
    %n = arith.addf %o, %v : f32
    linalg.yield %n : f32
  }
  func.return
}
