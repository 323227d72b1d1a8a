// RUN: padc-opt -p pad-into-producer %s | filecheck %s

// The second fill must not move up across the copy of %b, which writes %w[2] before.
// CHECK-LABEL: func.func @fill_across_copy
// CHECK:         linalg.copy ins(%b
// CHECK:         linalg.fill ins(%f
// CHECK:         linalg.copy ins(%a
// CHECK:         return
func.func @fill_across_copy(%x: memref<3xf32>, %b: memref<3xf32>, %z: f32, %f: f32) -> memref<6xf32> {
  %a = memref.alloc() : memref<3xf32>
  linalg.exp ins(%x : memref<3xf32>) outs(%a : memref<3xf32>)
  %w = memref.alloc() : memref<6xf32>
  linalg.fill ins(%z : f32) outs(%w : memref<6xf32>)
  %p = memref.subview %w[0] [3] [1] : memref<6xf32> to memref<3xf32, strided<[1]>>
  linalg.copy ins(%b : memref<3xf32>) outs(%p : memref<3xf32, strided<[1]>>)
  %q = memref.subview %w[2] [3] [1] : memref<6xf32> to memref<3xf32, strided<[1], offset: 2>>
  linalg.fill ins(%f : f32) outs(%q : memref<3xf32, strided<[1], offset: 2>>)
  %t = memref.subview %w[3] [3] [1] : memref<6xf32> to memref<3xf32, strided<[1], offset: 3>>
  linalg.copy ins(%a : memref<3xf32>) outs(%t : memref<3xf32, strided<[1], offset: 3>>)
  return %w : memref<6xf32>
}

// Two pads of %a, which changes between them, stay two buffers.
// CHECK-LABEL: func.func @changed_between_pads
// CHECK:         memref.alloc() : memref<3xf32>
// CHECK:         linalg.copy ins(%a
// CHECK:         linalg.fill ins(%f {{.*}} outs(%a
// CHECK:         memref.alloc() : memref<4xf32>
// CHECK:         linalg.copy ins(%a
func.func @changed_between_pads(%a: memref<2xf32>, %z: f32, %f: f32, %y: memref<2xf32>) {
  %p = memref.alloc() : memref<3xf32>
  linalg.fill ins(%z : f32) outs(%p : memref<3xf32>)
  %pi = memref.subview %p[1] [2] [1] : memref<3xf32> to memref<2xf32, strided<[1], offset: 1>>
  linalg.copy ins(%a : memref<2xf32>) outs(%pi : memref<2xf32, strided<[1], offset: 1>>)
  linalg.fill ins(%f : f32) outs(%a : memref<2xf32>)
  %q = memref.alloc() : memref<4xf32>
  linalg.fill ins(%z : f32) outs(%q : memref<4xf32>)
  %qi = memref.subview %q[2] [2] [1] : memref<4xf32> to memref<2xf32, strided<[1], offset: 2>>
  linalg.copy ins(%a : memref<2xf32>) outs(%qi : memref<2xf32, strided<[1], offset: 2>>)
  %v = memref.subview %p[0] [2] [1] : memref<3xf32> to memref<2xf32, strided<[1]>>
  linalg.add ins(%v, %qi : memref<2xf32, strided<[1]>>, memref<2xf32, strided<[1], offset: 2>>) outs(%y : memref<2xf32>)
  return
}
