// RUN: padc-opt -p convert-buffers-to-llvm %s | filecheck %s

// Each row of %y is prefetched while a row is summed, before it is written.
// CHECK:         llvm.prefetch
// CHECK:         llvm.fadd
// CHECK-NOT:     llvm.prefetch
// CHECK:         llvm.fsub
// CHECK-NOT:     llvm.prefetch
// CHECK-LABEL: llvm.func @last_row
func.func @last_row(%x: memref<20x40xf32>, %s: memref<20x1xf32>, %y: memref<20x40xf32>) {
  %z = arith.constant 0.0 : f32
  linalg.fill ins(%z : f32) outs(%s : memref<20x1xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, 0)>], iterator_types = ["parallel", "reduction"]} ins(%x : memref<20x40xf32>) outs(%s : memref<20x1xf32>) {
  ^bb0(%e0: f32, %o: f32):
    %r = arith.addf %o, %e0 : f32
    linalg.yield %r : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, 0)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x, %s : memref<20x40xf32>, memref<20x1xf32>) outs(%y : memref<20x40xf32>) {
  ^bb0(%e0: f32, %e1: f32, %o: f32):
    %r = arith.subf %e0, %e1 : f32
    linalg.yield %r : f32
  }
  func.return
}

// It would fill the first cache.
// CHECK-NOT:     llvm.prefetch
// CHECK-LABEL: llvm.func @long_row
func.func @long_row(%x: memref<20x3000xf32>, %s: memref<20x1xf32>, %y: memref<20x3000xf32>) {
  %z = arith.constant 0.0 : f32
  linalg.fill ins(%z : f32) outs(%s : memref<20x1xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, 0)>], iterator_types = ["parallel", "reduction"]} ins(%x : memref<20x3000xf32>) outs(%s : memref<20x1xf32>) {
  ^bb0(%e0: f32, %o: f32):
    %r = arith.addf %o, %e0 : f32
    linalg.yield %r : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, 0)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x, %s : memref<20x3000xf32>, memref<20x1xf32>) outs(%y : memref<20x3000xf32>) {
  ^bb0(%e0: f32, %e1: f32, %o: f32):
    %r = arith.subf %e0, %e1 : f32
    linalg.yield %r : f32
  }
  func.return
}

// Its cache lines are loaded already.
// CHECK-NOT:     llvm.prefetch
// CHECK-LABEL: llvm.func @read_before
func.func @read_before(%x: memref<20x40xf32>, %s: memref<20x1xf32>, %y: memref<20x40xf32>) {
  %z = arith.constant 0.0 : f32
  linalg.fill ins(%z : f32) outs(%s : memref<20x1xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, 0)>], iterator_types = ["parallel", "reduction"]} ins(%x : memref<20x40xf32>) outs(%s : memref<20x1xf32>) {
  ^bb0(%e0: f32, %o: f32):
    %r = arith.addf %o, %e0 : f32
    linalg.yield %r : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, 0)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%s : memref<20x1xf32>) outs(%x : memref<20x40xf32>) {
  ^bb0(%e0: f32, %o: f32):
    %r = arith.mulf %e0, %e0 : f32
    linalg.yield %r : f32
  }
  func.return
}

// CHECK-NOT:     llvm.prefetch
// CHECK-LABEL: llvm.func @written_before
func.func @written_before(%x: memref<20x40xf32>, %s: memref<20x1xf32>, %y: memref<20x40xf32>) {
  %z = arith.constant 0.0 : f32
  linalg.fill ins(%z : f32) outs(%y : memref<20x40xf32>)
  linalg.fill ins(%z : f32) outs(%s : memref<20x1xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, 0)>], iterator_types = ["parallel", "reduction"]} ins(%x : memref<20x40xf32>) outs(%s : memref<20x1xf32>) {
  ^bb0(%e0: f32, %o: f32):
    %r = arith.addf %o, %e0 : f32
    linalg.yield %r : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, 0)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x, %s : memref<20x40xf32>, memref<20x1xf32>) outs(%y : memref<20x40xf32>) {
  ^bb0(%e0: f32, %e1: f32, %o: f32):
    %r = arith.subf %e0, %e1 : f32
    linalg.yield %r : f32
  }
  func.return
}

// CHECK-NOT:     llvm.prefetch
// CHECK-LABEL: llvm.func @read_by_the_last
func.func @read_by_the_last(%x: memref<20x40xf32>, %s: memref<20x1xf32>, %y: memref<20x40xf32>) {
  %z = arith.constant 0.0 : f32
  linalg.fill ins(%z : f32) outs(%s : memref<20x1xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, 0)>], iterator_types = ["parallel", "reduction"]} ins(%x : memref<20x40xf32>) outs(%s : memref<20x1xf32>) {
  ^bb0(%e0: f32, %o: f32):
    %r = arith.addf %o, %e0 : f32
    linalg.yield %r : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, 0)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%y, %s : memref<20x40xf32>, memref<20x1xf32>) outs(%y : memref<20x40xf32>) {
  ^bb0(%e0: f32, %e1: f32, %o: f32):
    %r = arith.subf %e0, %e1 : f32
    linalg.yield %r : f32
  }
  func.return
}

// Nothing takes long before.
// CHECK-NOT:     llvm.prefetch
// CHECK-LABEL: llvm.func @no_rows_before
func.func @no_rows_before(%x: memref<20x40xf32>, %s: memref<20x1xf32>, %y: memref<20x40xf32>) {
  %z = arith.constant 0.0 : f32
  linalg.fill ins(%z : f32) outs(%s : memref<20x1xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, 0)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%s : memref<20x1xf32>) outs(%y : memref<20x40xf32>) {
  ^bb0(%e0: f32, %o: f32):
    %r = arith.mulf %e0, %e0 : f32
    linalg.yield %r : f32
  }
  func.return
}
