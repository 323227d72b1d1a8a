// RUN: padc-opt -p convert-tcp-to-linalg{border-pads=false},bufferize-tcp,canonicalize,cse %s | filecheck %s

// An allocation, a fill, a copy into a subview.
// CHECK-LABEL: func.func @constant
// CHECK-NEXT:    %[[Y:.*]] = memref.alloc() : memref<4x6xf32>
// CHECK-NEXT:    linalg.fill ins(%f : f32) outs(%[[Y]] : memref<4x6xf32>)
// CHECK-NEXT:    %[[IN:.*]] = memref.subview %[[Y]][1, 1] [2, 3] [1, 1]
// CHECK-NEXT:    linalg.copy ins(%x : memref<2x3xf32>) outs(%[[IN]]
// CHECK-NEXT:    return %[[Y]]
func.func @constant(%x: tensor<2x3xf32>, %f: f32) -> tensor<4x6xf32> {
  %y = tcp.pad %x, %f lowerExpansion [1, 1] upperExpansion [1, 2] : tensor<2x3xf32>, f32 -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}

// Interior amounts are strides.
// CHECK-LABEL: func.func @interior
// CHECK-NEXT:    %[[Y:.*]] = memref.alloc() : memref<3x5xf32>
// CHECK-NEXT:    linalg.fill ins(%f : f32) outs(%[[Y]] : memref<3x5xf32>)
// CHECK-NEXT:    %[[IN:.*]] = memref.subview %[[Y]][0, 0] [2, 3] [2, 2]
// CHECK-NEXT:    linalg.copy ins(%x : memref<2x3xf32>) outs(%[[IN]]
// CHECK-NEXT:    return %[[Y]]
func.func @interior(%x: tensor<2x3xf32>, %f: f32) -> tensor<3x5xf32> {
  %y = tcp.pad %x, %f lowerExpansion [0, 0] upperExpansion [0, 0] interiorExpansion [1, 1] : tensor<2x3xf32>, f32 -> tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// A crop is a view, without a copy.
// CHECK-LABEL: func.func @crop
// CHECK-NEXT:    %[[X:.*]] = memref.subview %x[1, 0] [2, 2] [1, 1]
// CHECK-NOT:     copy
// CHECK:         linalg.generic
// CHECK-SAME:    ins(%[[X]],
func.func @crop(%x: tensor<4x4xf32>, %f: f32) -> tensor<1x1xf32> {
  %y = tcp.pad %x, %f lowerExpansion [-1, 0] upperExpansion [-1, -2] : tensor<4x4xf32>, f32 -> tensor<2x2xf32>
  %z = tcp.max_pool %y kernel [2, 2] strides [1, 1] dilations [1, 1] dims [0, 1] : tensor<2x2xf32> -> tensor<1x1xf32>
  return %z : tensor<1x1xf32>
}

// A function returns only buffers that it allocates.
// CHECK-LABEL: func.func @returned_crop
// CHECK:         %[[X:.*]] = memref.subview %x[1] [2] [1]
// CHECK:         %[[Y:.*]] = memref.alloc() : memref<2xf32>
// CHECK-NEXT:    linalg.copy ins(%[[X]]
// CHECK-NEXT:    return %[[Y]]
func.func @returned_crop(%x: tensor<3xf32>, %f: f32) -> tensor<2xf32> {
  %y = tcp.pad %x, %f lowerExpansion [-1] upperExpansion [0] : tensor<3xf32>, f32 -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// Two copies of one block each.
// CHECK-LABEL: func.func @circular
// CHECK:         %[[Y:.*]] = memref.alloc({{.*}}) : memref<?x5xf32>
// CHECK:         linalg.copy ins(%x
// CHECK-NOT:     scf.for
// CHECK:         %[[FROM:.*]] = memref.subview %{{.*}}[0, 3]
// CHECK-NEXT:    %[[TO:.*]] = memref.subview %{{.*}}[0, 0]
// CHECK-NEXT:    linalg.copy ins(%[[FROM]] : {{.*}}) outs(%[[TO]]
// CHECK:         linalg.copy
// CHECK-NOT:     linalg.copy
// CHECK:         return %[[Y]]
func.func @circular(%x: tensor<?x3xf32>) -> tensor<?x5xf32> {
  %y = tcp.circular_pad %x lowerExpansion [0, 1] upperExpansion [0, 1] : tensor<?x3xf32> -> tensor<?x5xf32>
  return %y : tensor<?x5xf32>
}

// One row is copied below, and two in a loop above.
// CHECK-LABEL: func.func @replication
// CHECK:         %[[Y:.*]] = memref.alloc() : memref<6xf32>
// CHECK:         linalg.copy ins(%x
// CHECK:         %[[FIRST:.*]] = memref.subview %[[Y]][1] [1] [1]
// CHECK:         linalg.copy ins(%[[FIRST]]
// CHECK:         scf.for
// CHECK:           %[[LAST:.*]] = memref.subview %[[Y]][3] [1] [1]
// CHECK:           linalg.copy ins(%[[LAST]]
// CHECK:         return %[[Y]]
func.func @replication(%x: tensor<3xf32>) -> tensor<6xf32> {
  %y = tcp.replication_pad %x lowerExpansion [1] upperExpansion [2] : tensor<3xf32> -> tensor<6xf32>
  return %y : tensor<6xf32>
}

// Amounts that only crop make a view, without a copy.
// CHECK-LABEL: func.func @border_crop
// CHECK-NEXT:    %[[X:.*]] = memref.subview %x[1] [2] [1]
// CHECK-NOT:     copy
// CHECK:         linalg.generic
// CHECK-SAME:    ins(%[[X]],
func.func @border_crop(%x: tensor<5xf32>) -> tensor<1xf32> {
  %y = tcp.replication_pad %x lowerExpansion [-1] upperExpansion [-2] : tensor<5xf32> -> tensor<2xf32>
  %z = tcp.max_pool %y kernel [2] strides [1] dilations [1] dims [0] : tensor<2xf32> -> tensor<1xf32>
  return %z : tensor<1xf32>
}

// The border wraps around what is left after the crop: it begins with the element 1.
// CHECK-LABEL: func.func @circular_crop
// CHECK-NEXT:    %[[X:.*]] = memref.subview %x[1] [4] [1]
// CHECK-NEXT:    %[[Y:.*]] = memref.alloc() : memref<6xf32>
// CHECK-NEXT:    %[[IN:.*]] = memref.subview %[[Y]][0] [4] [1]
// CHECK-NEXT:    linalg.copy ins(%[[X]] : {{.*}}) outs(%[[IN]]
// CHECK-NEXT:    %[[FROM:.*]] = memref.subview %[[Y]][0] [2] [1]
// CHECK-NEXT:    %[[TO:.*]] = memref.subview %[[Y]][4] [2] [1]
// CHECK-NEXT:    linalg.copy ins(%[[FROM]] : {{.*}}) outs(%[[TO]]
// CHECK-NEXT:    return %[[Y]]
func.func @circular_crop(%x: tensor<5xf32>) -> tensor<6xf32> {
  %y = tcp.circular_pad %x lowerExpansion [-1] upperExpansion [2] : tensor<5xf32> -> tensor<6xf32>
  return %y : tensor<6xf32>
}

// There is nothing to copy.
// CHECK-LABEL: func.func @empty_borders
// CHECK-NEXT:    %[[Y:.*]] = memref.alloc() : memref<0x8xf32>
// CHECK-NEXT:    return %[[Y]]
func.func @empty_borders(%x: tensor<0x3xf32>) -> tensor<0x8xf32> {
  %y = tcp.replication_pad %x lowerExpansion [0, 2] upperExpansion [0, 3] : tensor<0x3xf32> -> tensor<0x8xf32>
  return %y : tensor<0x8xf32>
}

// A tensor with one use is written in place; one with more uses is copied.
// CHECK-LABEL: func.func @in_place
// CHECK:         %[[Z:.*]] = memref.alloc() : memref<4xf32>
// CHECK-NEXT:    linalg.fill ins(%f : f32) outs(%[[Z]]
// CHECK-NEXT:    %[[ONE:.*]] = memref.subview %[[Z]][1]
// CHECK-NEXT:    linalg.copy ins(%x : {{.*}}) outs(%[[ONE]]
// CHECK-NEXT:    %[[COPY:.*]] = memref.alloc() : memref<4xf32>
// CHECK-NEXT:    linalg.copy ins(%[[Z]] : {{.*}}) outs(%[[COPY]]
// CHECK-NEXT:    %[[TWO:.*]] = memref.subview %[[COPY]][2]
// CHECK-NEXT:    linalg.copy ins(%x : {{.*}}) outs(%[[TWO]]
// CHECK-NEXT:    return %[[Z]], %[[COPY]]
func.func @in_place(%x: tensor<2xf32>, %f: f32) -> (tensor<4xf32>, tensor<4xf32>) {
  %e = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%f : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %one = tensor.insert_slice %x into %z[1] [2] [1] : tensor<2xf32> into tensor<4xf32>
  %two = tensor.insert_slice %x into %one[2] [2] [1] : tensor<2xf32> into tensor<4xf32>
  return %one, %two : tensor<4xf32>, tensor<4xf32>
}

// The returned buffer has the shape of the result: nothing is copied.
// CHECK-LABEL: func.func @reshaped
// CHECK-NEXT:    %[[Y:.*]] = memref.alloc() : memref<6xf32>
// CHECK-NEXT:    %[[X:.*]] = memref.expand_shape %[[Y]] {{.*}} : memref<6xf32> into memref<2x3xf32>
// CHECK-NEXT:    linalg.fill ins(%f : f32) outs(%[[X]]
// CHECK-NEXT:    return %[[Y]]
func.func @reshaped(%f: f32) -> tensor<6xf32> {
  %e = tensor.empty() : tensor<2x3xf32>
  %x = linalg.fill ins(%f : f32) outs(%e : tensor<2x3xf32>) -> tensor<2x3xf32>
  %y = tensor.collapse_shape %x [[0, 1]] : tensor<2x3xf32> into tensor<6xf32>
  return %y : tensor<6xf32>
}

// Sizes are computed before the buffer is allocated.
// CHECK-LABEL: func.func @reshaped_twice
// CHECK:         %[[Y:.*]] = memref.alloc(%{{.*}}) : memref<?x2x2xf32>
// CHECK-NEXT:    %[[X:.*]] = memref.collapse_shape %[[Y]] {{.*}} : memref<?x2x2xf32> into memref<?x4xf32>
// CHECK-NEXT:    %[[E:.*]] = memref.expand_shape %[[X]] {{.*}} into memref<?x3x4xf32>
// CHECK-NEXT:    linalg.fill ins(%f : f32) outs(%[[E]]
// CHECK-NEXT:    return %[[Y]]
func.func @reshaped_twice(%f: f32, %n: index) -> tensor<?x2x2xf32> {
  %e = tensor.empty(%n) : tensor<?x3x4xf32>
  %x = linalg.fill ins(%f : f32) outs(%e : tensor<?x3x4xf32>) -> tensor<?x3x4xf32>
  %three = arith.constant 3 : index
  %rows = arith.muli %n, %three : index
  %z = tensor.collapse_shape %x [[0, 1], [2]] : tensor<?x3x4xf32> into tensor<?x4xf32>
  %y = tensor.expand_shape %z [[0], [1, 2]] output_shape [%rows, 2, 2] : tensor<?x4xf32> into tensor<?x2x2xf32>
  return %y : tensor<?x2x2xf32>
}

// Each result has memory of its own.
// CHECK-LABEL: func.func @returned_and_reshaped
// CHECK:         %[[Y:.*]] = memref.alloc() : memref<6xf32>
// CHECK:         %[[X:.*]] = memref.expand_shape %[[Y]]
// CHECK:         %[[Z:.*]] = memref.alloc() : memref<2x3xf32>
// CHECK-NEXT:    linalg.copy ins(%[[X]] : {{.*}}) outs(%[[Z]]
// CHECK-NEXT:    return %[[Y]], %[[Z]]
func.func @returned_and_reshaped(%f: f32) -> (tensor<6xf32>, tensor<2x3xf32>) {
  %e = tensor.empty() : tensor<2x3xf32>
  %x = linalg.fill ins(%f : f32) outs(%e : tensor<2x3xf32>) -> tensor<2x3xf32>
  %y = tensor.collapse_shape %x [[0, 1]] : tensor<2x3xf32> into tensor<6xf32>
  return %y, %x : tensor<6xf32>, tensor<2x3xf32>
}
