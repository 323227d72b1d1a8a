// RUN: padc-opt -p convert-buffers-to-llvm %s | filecheck %s

// One step of %t is on the stack of the kernel, which is too small for one of %u too.
// CHECK:       llvm.func internal @kernel_0
// CHECK:         llvm.alloca
// CHECK-NOT:     llvm.alloca
// CHECK-LABEL: llvm.func @two_large_rows
func.func @two_large_rows(%x: memref<20x40000xf32>, %y: memref<20x1xf32>, %arena: memref<?xi8>) {
  %z = arith.constant 0.0 : f32
  %zero = arith.constant 0 : index
  %after = arith.constant 3200000 : index
  %t = memref.view %arena[%zero][] : memref<?xi8> to memref<20x40000xf32>
  %u = memref.view %arena[%after][] : memref<?xi8> to memref<20x40000xf32>
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x : memref<20x40000xf32>) outs(%t : memref<20x40000xf32>) {
  ^bb0(%v: f32, %o: f32):
    %n = arith.negf %v : f32
    linalg.yield %n : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%t : memref<20x40000xf32>) outs(%u : memref<20x40000xf32>) {
  ^bb0(%v: f32, %o: f32):
    %n = arith.mulf %v, %v : f32
    linalg.yield %n : f32
  }
  linalg.fill ins(%z : f32) outs(%y : memref<20x1xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, 0)>], iterator_types = ["parallel", "reduction"]} ins(%u : memref<20x40000xf32>) outs(%y : memref<20x1xf32>) {
  ^bb0(%v: f32, %o: f32):
    %n = arith.addf %o, %v : f32
    linalg.yield %n : f32
  }
  func.return
}

// The size of a step of %t is not known.
// CHECK:       llvm.func internal @kernel_1
// CHECK-NOT:     llvm.alloca
// CHECK:       llvm.func internal @dynamic_rows_body
// CHECK-LABEL: llvm.func @dynamic_rows
func.func @dynamic_rows(%x: memref<20x?xf32>, %n: index, %y: memref<20x1xf32>, %arena: memref<?xi8>) {
  %z = arith.constant 0.0 : f32
  %zero = arith.constant 0 : index
  %t = memref.view %arena[%zero][%n] : memref<?xi8> to memref<20x?xf32>
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x : memref<20x?xf32>) outs(%t : memref<20x?xf32>) {
  ^bb0(%v: f32, %o: f32):
    %m = arith.negf %v : f32
    linalg.yield %m : f32
  }
  linalg.fill ins(%z : f32) outs(%y : memref<20x1xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, 0)>], iterator_types = ["parallel", "reduction"]} ins(%t : memref<20x?xf32>) outs(%y : memref<20x1xf32>) {
  ^bb0(%v: f32, %o: f32):
    %m = arith.addf %o, %v : f32
    linalg.yield %m : f32
  }
  func.return
}

// Nor are the columns of these moves.
// CHECK-LABEL: llvm.func @dynamic_columns
func.func @dynamic_columns(%x: memref<20x?xf32>, %n: index, %y: memref<20x?xf32>) {
  %z = arith.constant 0.0 : f32
  %two = arith.constant 2 : index
  %a = memref.subview %y[0, 0] [20, %n] [1, 1] : memref<20x?xf32> to memref<20x?xf32, strided<[?, 1]>>
  %b = memref.subview %y[0, %n] [20, 2] [1, 1] : memref<20x?xf32> to memref<20x2xf32, strided<[?, 1], offset: ?>>
  linalg.copy ins(%x : memref<20x?xf32>) outs(%a : memref<20x?xf32, strided<[?, 1]>>)
  linalg.fill ins(%z : f32) outs(%b : memref<20x2xf32, strided<[?, 1], offset: ?>>)
  func.return
}
