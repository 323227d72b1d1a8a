// RUN: padc-opt -p 'convert-buffers-to-llvm{grain=1}' %s | filecheck %s
// RUN: padc-opt -p convert-buffers-to-llvm %s | filecheck %s --check-prefix=LITTLE

// A kernel takes its part of the rows, and a worker calls it with arguments from a frame.
// CHECK:       llvm.func internal @kernel_0(%[[PART:.*]]: i64, %[[PARTS:.*]]: i64, %{{.*}}: !llvm.ptr {llvm.noalias}
// CHECK:         %[[BEFORE:.*]] = llvm.mul %{{.*}}, %[[PART]]
// CHECK-NEXT:    %[[BEGIN:.*]] = llvm.udiv %[[BEFORE]], %[[PARTS]]
// CHECK:         %[[FIRST:.*]] = llvm.call_intrinsic "llvm.smax.i64"(%[[BEGIN]], %{{.*}})
// CHECK:         llvm.br ^{{.*}}(%[[FIRST]] : i64)
// CHECK:       llvm.func internal @kernel_0_part(%[[FRAME:.*]]: !llvm.ptr, %[[PART:.*]]: i64, %[[PARTS:.*]]: i64)
// CHECK:         llvm.call @kernel_0(%[[PART]], %[[PARTS]],
// CHECK:       llvm.func internal @halved_body(%{{.*}}: !llvm.ptr, %[[FRAME:.*]]: !llvm.ptr)
// CHECK:         llvm.call @padc_share(%{{.*}}, %[[FRAME]],
// CHECK:       llvm.func @halved(%[[TABLE:.*]]: !llvm.ptr)
// CHECK:         llvm.call @padc_enter(%{{.*}}, %{{.*}}, %[[TABLE]],

// LITTLE:      llvm.func @halved
// LITTLE-NOT:  padc_share
func.func @halved(%x: memref<6x8xf32>, %y: memref<8x6xf32>) {
  %half = arith.constant 0.5 : f32
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j, i)>], iterator_types = ["parallel", "parallel"]} ins(%x : memref<6x8xf32>) outs(%y : memref<8x6xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.mulf %a, %half : f32
    linalg.yield %c : f32
  }
  func.return
}
