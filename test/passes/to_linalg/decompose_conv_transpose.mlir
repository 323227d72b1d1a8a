// RUN: padc-opt -p decompose-conv-transpose %s | filecheck %s
// RUN: padc-opt -p decompose-conv-transpose{form=crop} %s | filecheck %s --check-prefix=CROP

// The kernel reversed; what the op crops, less what its windows reach, is what the pad
// adds.
// CHECK-LABEL: func.func @one_group
// CHECK:         %[[F:.*]] = torch.aten.flip
// CHECK:         %[[W:.*]] = torch_c.to_builtin_tensor %[[F]]
// CHECK:         %[[P:.*]] = tcp.pad %x, %{{.*}} lowerExpansion [0, 0, 3] upperExpansion [0, 0, 4] interiorExpansion [0, 0, 1]
// CHECK-NEXT:    tcp.conv %[[P]], %[[W]], %b strides [1] dilations [2] groups 1 dims <[b, f, 0] x [i, o, 0] -> [b, f, 0]>
// CROP-LABEL:  func.func @one_group
// CROP-NEXT:     %[[Y:.*]] = tcp.conv_transpose %x, %w, %b strides [2] dilations [2] groups 1 dims
// CROP:          tcp.pad %[[Y]], %{{.*}} lowerExpansion [0, 0, -1] upperExpansion [0, 0, 0]
// CROP-NOT:      aten
func.func @one_group(%x : tensor<1x2x4xf32>, %w : tensor<2x6x3xf32>, %b : tensor<6xf32>) -> tensor<1x6x10xf32> {
  %0 = tcp.conv_transpose %x, %w, %b strides [2] dilations [2] groups 1 lowerExpansion [-1] dims <[b, f, 0] x [i, o, 0] -> [b, f, 0]> : tensor<1x2x4xf32>, tensor<2x6x3xf32>, tensor<6xf32> -> tensor<1x6x10xf32>
  return %0 : tensor<1x6x10xf32>
}

// In groups, each group's features change places too; the pad crops.
// CHECK-LABEL: func.func @groups
// CHECK:         torch.aten.reshape {{.*}} -> !torch.vtensor<[2,1,3,6],f32>
// CHECK:         torch.aten.flip
// CHECK:         torch.aten.permute {{.*}} -> !torch.vtensor<[2,3,1,6],f32>
// CHECK:         torch.aten.reshape {{.*}} -> !torch.vtensor<[6,1,2,3],f32>
// CHECK:         tcp.pad %x, %{{.*}} lowerExpansion [0, -1, -1] upperExpansion [0, -1, 1]
// CHECK:         tcp.conv {{.*}} groups 2 dims <[f, 0, 1] x [o, i, 0, 1] -> [f, 1, 0]>
// CROP-LABEL:  func.func @groups
// CROP:          tcp.conv_transpose
// CROP:          tcp.pad %{{.*}} lowerExpansion [0, -3, -2] upperExpansion [0, -1, -2]
func.func @groups(%x : tensor<2x4x5xf32>, %w : tensor<2x3x2x3xf32>) -> tensor<6x3x1xf32> {
  %0 = tcp.conv_transpose %x, %w strides [1, 1] dilations [1, 1] groups 2 lowerExpansion [-2, -3] upperExpansion [-2, -1] dims <[f, 0, 1] x [i, o, 0, 1] -> [f, 1, 0]> : tensor<2x4x5xf32>, tensor<2x3x2x3xf32> -> tensor<6x3x1xf32>
  return %0 : tensor<6x3x1xf32>
}

// The bias is for what the pad adds, too.
// CROP-LABEL:  func.func @bias_of_what_is_added
// CROP-NEXT:     %[[Y:.*]] = tcp.conv_transpose %x, %w strides
// CROP:          tcp.pad %[[Y]], %{{.*}} lowerExpansion [0, 0, 0] upperExpansion [0, 0, 1]
// CROP:          torch.aten.reshape
// CROP:          torch.aten.add.Tensor
func.func @bias_of_what_is_added(%x : tensor<1x2x4xf32>, %w : tensor<2x6x3xf32>, %b : tensor<6xf32>) -> tensor<1x6x10xf32> {
  %0 = tcp.conv_transpose %x, %w, %b strides [2] dilations [1] groups 1 upperExpansion [1] dims <[b, f, 0] x [i, o, 0] -> [b, f, 0]> : tensor<1x2x4xf32>, tensor<2x6x3xf32>, tensor<6xf32> -> tensor<1x6x10xf32>
  return %0 : tensor<1x6x10xf32>
}

// One pad cannot crop what it adds itself.
// CHECK-LABEL: func.func @cropped_away
// CHECK:         %[[A:.*]] = tcp.pad %x, %{{.*}} lowerExpansion [0, 0, 0] upperExpansion [0, 0, 3] interiorExpansion [0, 0, 8]
// CHECK:         tcp.pad %[[A]], %{{.*}} lowerExpansion [0, 0, -3] upperExpansion [0, 0, 0]
// CROP-LABEL:  func.func @cropped_away
// CROP:          %[[A:.*]] = tcp.pad %{{.*}} lowerExpansion [0, 0, 0] upperExpansion [0, 0, 3]
// CROP:          tcp.pad %[[A]], %{{.*}} lowerExpansion [0, 0, -3] upperExpansion [0, 0, 0]
func.func @cropped_away(%x : tensor<1x2x1xf32>, %w : tensor<2x4x1xf32>) -> tensor<1x4x1xf32> {
  %0 = tcp.conv_transpose %x, %w strides [9] dilations [1] groups 1 lowerExpansion [-3] upperExpansion [3] dims <[b, f, 0] x [i, o, 0] -> [b, f, 0]> : tensor<1x2x1xf32>, tensor<2x4x1xf32> -> tensor<1x4x1xf32>
  return %0 : tensor<1x4x1xf32>
}

// How far windows reach is not known; and nothing is to be cropped.
// CHECK-LABEL: func.func @dynamic_kernel
// CHECK-NEXT:    tcp.conv_transpose
// CHECK-NEXT:    return
// CROP-LABEL:  func.func @dynamic_kernel
// CROP-NEXT:     tcp.conv_transpose
// CROP-NEXT:     return
func.func @dynamic_kernel(%x : tensor<1x2x4xf32>, %w : tensor<2x4x?xf32>) -> tensor<1x4x?xf32> {
  %0 = tcp.conv_transpose %x, %w strides [1] dilations [1] groups 1 dims <[b, f, 0] x [i, o, 0] -> [b, f, 0]> : tensor<1x2x4xf32>, tensor<2x4x?xf32> -> tensor<1x4x?xf32>
  return %0 : tensor<1x4x?xf32>
}
