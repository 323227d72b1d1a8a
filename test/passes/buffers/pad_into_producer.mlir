// RUN: padc-opt -p convert-tcp-to-linalg{border-pads=false},bufferize-tcp,canonicalize,cse,pad-into-producer %s | filecheck %s
// RUN: padc-opt -p convert-tcp-to-linalg{border-pads=false},bufferize-tcp,canonicalize,cse,pad-into-producer,fill-border-only %s | filecheck %s --check-prefix=BORDER
// RUN: padc-opt -p convert-tcp-to-linalg{border-pads=false},bufferize-tcp,canonicalize,cse,pad-into-producer,fill-border-only,plan-buffers %s | filecheck %s --check-prefix=PLAN

// In eight padded convolutions only the input is copied, and only borders are filled
// next to their results. Two padded buffers of 1600 bytes each are in use at a time.
// CHECK-LABEL:  func.func @chain
// CHECK:          linalg.copy ins(%x
// CHECK-NOT:      linalg.copy
// CHECK:          return
// BORDER-LABEL: func.func @chain
// BORDER-NOT:     linalg.fill {{.*}} outs(%{{.*}} : memref<1x4x10x10xf32>)
// BORDER:         linalg.fill {{.*}} : memref<1x4x1x10xf32
// BORDER:         linalg.fill {{.*}} : memref<1x4x8x1xf32
// BORDER-NOT:     linalg.fill {{.*}} outs(%{{.*}} : memref<1x4x10x10xf32>)
// BORDER:         return
// PLAN-LABEL:   func.func @chain
// PLAN-SAME:      padc.live_bytes = 3200 : i64
// PLAN-SAME:      padc.arena_bytes = 3200 : i64
func.func @chain(%x: tensor<1x4x8x8xf32>, %w: tensor<4x4x3x3xf32>) -> tensor<1x4x8x8xf32> {
  %z = arith.constant 0.0 : f32
  %p0 = tcp.pad %x, %z lowerExpansion [0, 0, 1, 1] upperExpansion [0, 0, 1, 1] : tensor<1x4x8x8xf32>, f32 -> tensor<1x4x10x10xf32>
  %y0 = tcp.conv %p0, %w strides [1, 1] dilations [1, 1] groups 1 dims <[b, f, 0, 1] x [o, i, 0, 1] -> [b, f, 0, 1]> : tensor<1x4x10x10xf32>, tensor<4x4x3x3xf32> -> tensor<1x4x8x8xf32>
  %p1 = tcp.pad %y0, %z lowerExpansion [0, 0, 1, 1] upperExpansion [0, 0, 1, 1] : tensor<1x4x8x8xf32>, f32 -> tensor<1x4x10x10xf32>
  %y1 = tcp.conv %p1, %w strides [1, 1] dilations [1, 1] groups 1 dims <[b, f, 0, 1] x [o, i, 0, 1] -> [b, f, 0, 1]> : tensor<1x4x10x10xf32>, tensor<4x4x3x3xf32> -> tensor<1x4x8x8xf32>
  %p2 = tcp.pad %y1, %z lowerExpansion [0, 0, 1, 1] upperExpansion [0, 0, 1, 1] : tensor<1x4x8x8xf32>, f32 -> tensor<1x4x10x10xf32>
  %y2 = tcp.conv %p2, %w strides [1, 1] dilations [1, 1] groups 1 dims <[b, f, 0, 1] x [o, i, 0, 1] -> [b, f, 0, 1]> : tensor<1x4x10x10xf32>, tensor<4x4x3x3xf32> -> tensor<1x4x8x8xf32>
  %p3 = tcp.pad %y2, %z lowerExpansion [0, 0, 1, 1] upperExpansion [0, 0, 1, 1] : tensor<1x4x8x8xf32>, f32 -> tensor<1x4x10x10xf32>
  %y3 = tcp.conv %p3, %w strides [1, 1] dilations [1, 1] groups 1 dims <[b, f, 0, 1] x [o, i, 0, 1] -> [b, f, 0, 1]> : tensor<1x4x10x10xf32>, tensor<4x4x3x3xf32> -> tensor<1x4x8x8xf32>
  %p4 = tcp.pad %y3, %z lowerExpansion [0, 0, 1, 1] upperExpansion [0, 0, 1, 1] : tensor<1x4x8x8xf32>, f32 -> tensor<1x4x10x10xf32>
  %y4 = tcp.conv %p4, %w strides [1, 1] dilations [1, 1] groups 1 dims <[b, f, 0, 1] x [o, i, 0, 1] -> [b, f, 0, 1]> : tensor<1x4x10x10xf32>, tensor<4x4x3x3xf32> -> tensor<1x4x8x8xf32>
  %p5 = tcp.pad %y4, %z lowerExpansion [0, 0, 1, 1] upperExpansion [0, 0, 1, 1] : tensor<1x4x8x8xf32>, f32 -> tensor<1x4x10x10xf32>
  %y5 = tcp.conv %p5, %w strides [1, 1] dilations [1, 1] groups 1 dims <[b, f, 0, 1] x [o, i, 0, 1] -> [b, f, 0, 1]> : tensor<1x4x10x10xf32>, tensor<4x4x3x3xf32> -> tensor<1x4x8x8xf32>
  %p6 = tcp.pad %y5, %z lowerExpansion [0, 0, 1, 1] upperExpansion [0, 0, 1, 1] : tensor<1x4x8x8xf32>, f32 -> tensor<1x4x10x10xf32>
  %y6 = tcp.conv %p6, %w strides [1, 1] dilations [1, 1] groups 1 dims <[b, f, 0, 1] x [o, i, 0, 1] -> [b, f, 0, 1]> : tensor<1x4x10x10xf32>, tensor<4x4x3x3xf32> -> tensor<1x4x8x8xf32>
  %p7 = tcp.pad %y6, %z lowerExpansion [0, 0, 1, 1] upperExpansion [0, 0, 1, 1] : tensor<1x4x8x8xf32>, f32 -> tensor<1x4x10x10xf32>
  %y7 = tcp.conv %p7, %w strides [1, 1] dilations [1, 1] groups 1 dims <[b, f, 0, 1] x [o, i, 0, 1] -> [b, f, 0, 1]> : tensor<1x4x10x10xf32>, tensor<4x4x3x3xf32> -> tensor<1x4x8x8xf32>
  return %y7 : tensor<1x4x8x8xf32>
}

// Of pads with the same fill only the widest is made; the others are views of it.
// CHECK-LABEL: func.func @several
// CHECK:         %[[P:.*]] = memref.alloc() : memref<9xf32>
// CHECK-NEXT:    linalg.fill {{.*}} outs(%[[P]]
// CHECK-NEXT:    %[[IN:.*]] = memref.subview %[[P]][3] [4] [1]
// CHECK-NOT:     copy
// CHECK-NOT:     memref.alloc() : memref<7xf32>
// CHECK:         linalg.fill {{.*}} outs(%[[IN]]
// CHECK:         memref.subview %[[P]][2] [7] [1]
func.func @several(%x: tensor<4xf32>) -> (tensor<3xf32>, tensor<2xf32>) {
  %z = arith.constant 0.0 : f32
  %e = tcp.max_pool %x kernel [1] strides [1] dilations [1] dims [0] : tensor<4xf32> -> tensor<4xf32>
  %p = tcp.pad %e, %z lowerExpansion [1] upperExpansion [2] : tensor<4xf32>, f32 -> tensor<7xf32>
  %q = tcp.pad %e, %z lowerExpansion [3] upperExpansion [0] : tensor<4xf32>, f32 -> tensor<7xf32>
  %a = tcp.max_pool %p kernel [5] strides [1] dilations [1] dims [0] : tensor<7xf32> -> tensor<3xf32>
  %b = tcp.max_pool %q kernel [6] strides [1] dilations [1] dims [0] : tensor<7xf32> -> tensor<2xf32>
  return %a, %b : tensor<3xf32>, tensor<2xf32>
}

// Inputs of a concatenation are written directly into its result.
// CHECK-LABEL: func.func @concatenation
// CHECK:         %[[C:.*]] = memref.alloc() : memref<6xf32>
// CHECK-NOT:     copy
// CHECK:         return %[[C]]
func.func @concatenation(%x: tensor<4xf32>) -> tensor<6xf32> {
  %a = tcp.max_pool %x kernel [1] strides [1] dilations [1] dims [0] : tensor<4xf32> -> tensor<4xf32>
  %b = tcp.max_pool %x kernel [3] strides [1] dilations [1] dims [0] : tensor<4xf32> -> tensor<2xf32>
  %c = tensor.concat dim(0) %a, %b : (tensor<4xf32>, tensor<2xf32>) -> tensor<6xf32>
  return %c : tensor<6xf32>
}

// A returned buffer must be contiguous: it is copied into the pad.
// CHECK-LABEL: func.func @returned
// CHECK:         linalg.copy
// CHECK:         return
func.func @returned(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<5xf32>) {
  %z = arith.constant 0.0 : f32
  %a = tcp.max_pool %x kernel [1] strides [1] dilations [1] dims [0] : tensor<4xf32> -> tensor<4xf32>
  %b = tcp.pad %a, %z lowerExpansion [0] upperExpansion [1] : tensor<4xf32>, f32 -> tensor<5xf32>
  return %a, %b : tensor<4xf32>, tensor<5xf32>
}

// The second part is every other element, and shares some with the first.
// CHECK-LABEL: func.func @overlapping_strided_parts
// CHECK:         memref.subview %{{.*}}[3] [3] [1]
// CHECK:         linalg.copy
// CHECK:         memref.subview %{{.*}}[0] [3] [2]
// CHECK:         linalg.copy
// CHECK:         return
func.func @overlapping_strided_parts(%a: tensor<3xf32>, %b: tensor<3xf32>) -> tensor<6xf32> {
  %z = arith.constant 0.0 : f32
  %c = tcp.max_pool %a kernel [1] strides [1] dilations [1] dims [0] : tensor<3xf32> -> tensor<3xf32>
  %e = tensor.empty() : tensor<6xf32>
  %y0 = linalg.fill ins(%z : f32) outs(%e : tensor<6xf32>) -> tensor<6xf32>
  %y1 = tensor.insert_slice %b into %y0[3] [3] [1] : tensor<3xf32> into tensor<6xf32>
  %y2 = tensor.insert_slice %c into %y1[0] [3] [2] : tensor<3xf32> into tensor<6xf32>
  return %y2 : tensor<6xf32>
}

// Even and odd elements are disjoint, however many there are.
// CHECK-LABEL: func.func @interleaved_parts
// CHECK:         %[[EVEN:.*]] = memref.subview %{{.*}}[0] [%{{.*}}] [2]
// CHECK:         linalg.fill {{.*}} outs(%[[EVEN]]
// CHECK:         memref.subview %{{.*}}[1] [%{{.*}}] [2]
// CHECK:         linalg.copy ins(%b
// CHECK-NOT:     linalg.copy
// CHECK:         return
func.func @interleaved_parts(%a: tensor<?xf32>, %b: tensor<?xf32>, %n: index, %m: index) -> tensor<?xf32> {
  %z = arith.constant 0.0 : f32
  %c = tcp.max_pool %a kernel [1] strides [1] dilations [1] dims [0] : tensor<?xf32> -> tensor<?xf32>
  %e = tensor.empty(%m) : tensor<?xf32>
  %y0 = linalg.fill ins(%z : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %y1 = tensor.insert_slice %b into %y0[1] [%n] [2] : tensor<?xf32> into tensor<?xf32>
  %y2 = tensor.insert_slice %c into %y1[0] [%n] [2] : tensor<?xf32> into tensor<?xf32>
  return %y2 : tensor<?xf32>
}

// A convolution is faster along rows, a packed one along its channels.
// CHECK-LABEL: func.func @convolutions
// CHECK:         linalg.conv_2d_nchw_fchw {{.*}} outs(%[[ROWS:[^ ]*]] : memref<1x4x6x6xf32>)
// CHECK:         linalg.copy ins(%[[ROWS]]
// CHECK-NOT:     linalg.copy
// CHECK:         return
func.func @convolutions(%x: tensor<1x4x8x8xf32>, %w: tensor<4x4x3x3xf32>, %p: tensor<8x8x4xf32>, %v: tensor<3x3x4xf32>) -> (tensor<1x4x12x12xf32>, tensor<12x12x4xf32>) {
  %z = arith.constant 0.0 : f32
  %c = tcp.conv %x, %w strides [1, 1] dilations [1, 1] groups 1 dims <[b, f, 0, 1] x [o, i, 0, 1] -> [b, f, 0, 1]> : tensor<1x4x8x8xf32>, tensor<4x4x3x3xf32> -> tensor<1x4x6x6xf32>
  %e = tensor.empty() : tensor<1x4x12x12xf32>
  %y = tensor.insert_slice %c into %e[0, 0, 0, 0] [1, 4, 6, 6] [1, 1, 2, 2] : tensor<1x4x6x6xf32> into tensor<1x4x12x12xf32>
  %e0 = tensor.empty() : tensor<6x6x4xf32>
  %s = linalg.fill ins(%z : f32) outs(%e0 : tensor<6x6x4xf32>) -> tensor<6x6x4xf32>
  %d = linalg.generic {indexing_maps = [affine_map<(a, b, i, j, l) -> (a + i, b + j, l)>, affine_map<(a, b, i, j, l) -> (i, j, l)>, affine_map<(a, b, i, j, l) -> (a, b, l)>], iterator_types = ["parallel", "parallel", "reduction", "reduction", "parallel"]} ins(%p, %v : tensor<8x8x4xf32>, tensor<3x3x4xf32>) outs(%s : tensor<6x6x4xf32>) {
  ^bb0(%0: f32, %1: f32, %2: f32):
    %3 = arith.mulf %0, %1 : f32
    %4 = arith.addf %3, %2 : f32
    linalg.yield %4 : f32
  } -> tensor<6x6x4xf32>
  %e1 = tensor.empty() : tensor<12x12x4xf32>
  %q = tensor.insert_slice %d into %e1[0, 0, 0] [6, 6, 4] [2, 2, 1] : tensor<6x6x4xf32> into tensor<12x12x4xf32>
  return %y, %q : tensor<1x4x12x12xf32>, tensor<12x12x4xf32>
}
