// RUN: padc-opt -p pad-into-producer %s | filecheck %s
// RUN: padc-opt -p fill-border-only %s | filecheck %s --check-prefix=BORDER

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

// It moves up to where %a is computed, after the copy of %b that was there before.
// CHECK-LABEL: func.func @fill_after_copy
// CHECK:         linalg.copy ins(%b
// CHECK:         linalg.fill ins(%f
// CHECK:         linalg.exp
// CHECK-NOT:     linalg.copy
// CHECK:         return
func.func @fill_after_copy(%x: memref<3xf32>, %b: memref<3xf32>, %f: f32) -> memref<6xf32> {
  %w = memref.alloc() : memref<6xf32>
  %p = memref.subview %w[0] [3] [1] : memref<6xf32> to memref<3xf32, strided<[1]>>
  linalg.copy ins(%b : memref<3xf32>) outs(%p : memref<3xf32, strided<[1]>>)
  %a = memref.alloc() : memref<3xf32>
  linalg.exp ins(%x : memref<3xf32>) outs(%a : memref<3xf32>)
  %q = memref.subview %w[2] [4] [1] : memref<6xf32> to memref<4xf32, strided<[1], offset: 2>>
  linalg.fill ins(%f : f32) outs(%q : memref<4xf32, strided<[1], offset: 2>>)
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

// Other ops and functions without a body stay.
// CHECK:         builtin.module @other
// CHECK:         func.func private @declared
// BORDER:        builtin.module @other
// BORDER:        func.func private @declared
builtin.module @other {
}
func.func private @declared(memref<3xf32>) -> ()

// A value and its padded buffer may both be read afterwards.
// CHECK-LABEL: func.func @both_are_read
// CHECK-NOT:     linalg.copy
// CHECK:         return
func.func @both_are_read(%x: memref<3xf32>, %y: memref<3xf32>, %z: f32) -> memref<3xf32> {
  %a = memref.alloc() : memref<3xf32>
  linalg.exp ins(%x : memref<3xf32>) outs(%a : memref<3xf32>)
  %w = memref.alloc() : memref<6xf32>
  linalg.fill ins(%z : f32) outs(%w : memref<6xf32>)
  %t = memref.subview %w[3] [3] [1] : memref<6xf32> to memref<3xf32, strided<[1], offset: 3>>
  linalg.copy ins(%a : memref<3xf32>) outs(%t : memref<3xf32, strided<[1], offset: 3>>)
  %u = memref.subview %w[2] [3] [1] : memref<6xf32> to memref<3xf32, strided<[1], offset: 2>>
  linalg.add ins(%a, %u : memref<3xf32>, memref<3xf32, strided<[1], offset: 2>>) outs(%y : memref<3xf32>)
  %r = memref.alloc() : memref<3xf32>
  linalg.exp ins(%u : memref<3xf32, strided<[1], offset: 2>>) outs(%r : memref<3xf32>)
  return %r : memref<3xf32>
}

// What is not read again may be overwritten in the padded buffer.
// CHECK-LABEL: func.func @overwritten_later
// CHECK-NOT:     linalg.copy
// CHECK:         return
func.func @overwritten_later(%x: memref<3xf32>, %z: f32) -> memref<6xf32> {
  %a = memref.alloc() : memref<3xf32>
  linalg.exp ins(%x : memref<3xf32>) outs(%a : memref<3xf32>)
  %w = memref.alloc() : memref<6xf32>
  linalg.fill ins(%z : f32) outs(%w : memref<6xf32>)
  %t = memref.subview %w[3] [3] [1] : memref<6xf32> to memref<3xf32, strided<[1], offset: 3>>
  linalg.copy ins(%a : memref<3xf32>) outs(%t : memref<3xf32, strided<[1], offset: 3>>)
  %u = memref.subview %w[3] [1] [1] : memref<6xf32> to memref<1xf32, strided<[1], offset: 3>>
  linalg.fill ins(%z : f32) outs(%u : memref<1xf32, strided<[1], offset: 3>>)
  return %w : memref<6xf32>
}

// The fill cannot move up: its value is loaded after the value is computed.
// CHECK-LABEL: func.func @loaded_fill
// CHECK:         linalg.exp
// CHECK:         memref.load
// CHECK:         linalg.copy
// CHECK:         return
func.func @loaded_fill(%x: memref<3xf32>, %i: index) -> memref<6xf32> {
  %a = memref.alloc() : memref<3xf32>
  linalg.exp ins(%x : memref<3xf32>) outs(%a : memref<3xf32>)
  %z = memref.load %a[%i] : memref<3xf32>
  %w = memref.alloc() : memref<6xf32>
  linalg.fill ins(%z : f32) outs(%w : memref<6xf32>)
  %t = memref.subview %w[3] [3] [1] : memref<6xf32> to memref<3xf32, strided<[1], offset: 3>>
  linalg.copy ins(%a : memref<3xf32>) outs(%t : memref<3xf32, strided<[1], offset: 3>>)
  return %w : memref<6xf32>
}

// Nor is a buffer copied to itself, or to a view of another shape, replaced.
// CHECK-LABEL: func.func @other_targets
// CHECK:         linalg.copy ins(%a
// CHECK:         linalg.copy ins(%b
// CHECK:         return
func.func @other_targets(%x: memref<6xf32>) -> memref<2x3xf32> {
  %a = memref.alloc() : memref<6xf32>
  linalg.exp ins(%x : memref<6xf32>) outs(%a : memref<6xf32>)
  linalg.copy ins(%a : memref<6xf32>) outs(%a : memref<6xf32>)
  %b = memref.alloc() : memref<6xf32>
  linalg.exp ins(%a : memref<6xf32>) outs(%b : memref<6xf32>)
  %w = memref.alloc() : memref<2x3xf32>
  %t = memref.collapse_shape %w [[0, 1]] : memref<2x3xf32> into memref<6xf32>
  linalg.copy ins(%b : memref<6xf32>) outs(%t : memref<6xf32>)
  return %w : memref<2x3xf32>
}

// Memory of the caller may be what the value is computed from.
// CHECK-LABEL: func.func @to_an_argument
// CHECK:         linalg.exp
// CHECK:         linalg.copy
func.func @to_an_argument(%x: memref<3xf32>, %y: memref<6xf32>) {
  %a = memref.alloc() : memref<3xf32>
  linalg.exp ins(%x : memref<3xf32>) outs(%a : memref<3xf32>)
  %t = memref.subview %y[3] [3] [1] : memref<6xf32> to memref<3xf32, strided<[1], offset: 3>>
  linalg.copy ins(%a : memref<3xf32>) outs(%t : memref<3xf32, strided<[1], offset: 3>>)
  return
}

// Only what sums products is faster along rows: not what multiplies and adds a third
// value, nor a factor of products.
// CHECK-LABEL: func.func @every_second
// CHECK-NOT:     linalg.copy
// CHECK:         return
func.func @every_second(%x: memref<3xf32>, %y: memref<3xf32>, %i: index) -> (memref<6xf32>, memref<6xf32>, memref<1xf32>, f32) {
  %a = memref.alloc() : memref<3xf32>
  linalg.generic {indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> (d)>, affine_map<(d) -> (d)>, affine_map<(d) -> (d)>], iterator_types = ["parallel"]} ins(%x, %y, %x : memref<3xf32>, memref<3xf32>, memref<3xf32>) outs(%a : memref<3xf32>) {
  ^bb0(%0: f32, %1: f32, %2: f32, %3: f32):
    %4 = arith.mulf %0, %1 : f32
    %5 = arith.addf %4, %2 : f32
    linalg.yield %5 : f32
  }
  %w = memref.alloc() : memref<6xf32>
  %t = memref.subview %w[0] [3] [2] : memref<6xf32> to memref<3xf32, strided<[2]>>
  linalg.copy ins(%a : memref<3xf32>) outs(%t : memref<3xf32, strided<[2]>>)
  %b = memref.alloc() : memref<3xf32>
  linalg.exp ins(%x : memref<3xf32>) outs(%b : memref<3xf32>)
  %f = memref.load %b[%i] : memref<3xf32>
  %s = memref.alloc() : memref<1xf32>
  linalg.generic {indexing_maps = [affine_map<(d, r) -> (r)>, affine_map<(d, r) -> (r)>, affine_map<(d, r) -> (d)>], iterator_types = ["parallel", "reduction"]} ins(%b, %y : memref<3xf32>, memref<3xf32>) outs(%s : memref<1xf32>) {
  ^bb0(%0: f32, %1: f32, %2: f32):
    %3 = arith.mulf %0, %1 : f32
    %4 = arith.addf %3, %2 : f32
    linalg.yield %4 : f32
  }
  %v = memref.alloc() : memref<6xf32>
  %u = memref.subview %v[0] [3] [2] : memref<6xf32> to memref<3xf32, strided<[2]>>
  linalg.copy ins(%b : memref<3xf32>) outs(%u : memref<3xf32, strided<[2]>>)
  return %w, %v, %s, %f : memref<6xf32>, memref<6xf32>, memref<1xf32>, f32
}

// A single element has no rows.
// CHECK-LABEL: func.func @single
// CHECK-NOT:     linalg.copy
// CHECK:         return
func.func @single(%x: memref<f32>) -> memref<f32> {
  %a = memref.alloc() : memref<f32>
  linalg.exp ins(%x : memref<f32>) outs(%a : memref<f32>)
  %w = memref.alloc() : memref<f32>
  linalg.copy ins(%a : memref<f32>) outs(%w : memref<f32>)
  return %w : memref<f32>
}
