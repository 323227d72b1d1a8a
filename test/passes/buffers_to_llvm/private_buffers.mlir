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
