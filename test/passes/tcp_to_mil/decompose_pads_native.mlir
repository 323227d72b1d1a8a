// RUN: padc-opt -p 'decompose-pads{policy=native},canonicalize' %s | filecheck %s

// CHECK-LABEL: func.func @last_two
// CHECK-NEXT:    tcp.replication_pad
// CHECK-NEXT:    return
func.func @last_two(%x : tensor<1x2x2x4xf32>) -> tensor<1x2x4x6xf32> {
  %0 = tcp.replication_pad %x lowerExpansion [0, 0, 2, -1] upperExpansion [0, 0, 0, 3] : tensor<1x2x2x4xf32> -> tensor<1x2x4x6xf32>
  return %0 : tensor<1x2x4x6xf32>
}

// The size of the result may be more static than that of the input.
// CHECK-LABEL: func.func @refined
// CHECK-NEXT:    tcp.reflection_pad {{.*}} : tensor<2x?xf32> -> tensor<2x6xf32>
// CHECK-NEXT:    return
func.func @refined(%x : tensor<2x?xf32>) -> tensor<2x6xf32> {
  %0 = tcp.reflection_pad %x lowerExpansion [0, 1] upperExpansion [0, 0] : tensor<2x?xf32> -> tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}

// No two pads are left without a transpose between them.
// CHECK-LABEL: func.func @all
// CHECK:         torch.aten.permute %{{.*}} -> !torch.vtensor<[1,3,2,4,2],f32>
// CHECK:         tcp.reflection_pad %{{.*}} lowerExpansion [0, 0, 0, 0, 1] upperExpansion [0, 0, 0, 0, 0]
// CHECK:         torch.aten.permute %{{.*}} -> !torch.vtensor<[1,3,3,2,4],f32>
// CHECK:         tcp.reflection_pad %{{.*}} lowerExpansion [0, 0, 0, 1, -2] upperExpansion [0, 0, 0, 0, 3]
// CHECK-NEXT:    return
func.func @all(%x : tensor<1x2x3x2x4xf32>) -> tensor<1x3x3x3x5xf32> {
  %0 = tcp.reflection_pad %x lowerExpansion [0, 1, 0, 1, -2] upperExpansion [0, 0, 0, 0, 3] : tensor<1x2x3x2x4xf32> -> tensor<1x3x3x3x5xf32>
  return %0 : tensor<1x3x3x3x5xf32>
}

// CHECK-LABEL: func.func @three_others
// CHECK:         torch.aten.permute %{{.*}} -> !torch.vtensor<[3,2,4,2,2],f32>
// CHECK:         tcp.replication_pad %{{.*}} lowerExpansion [0, 0, 0, 1, 1]
// CHECK:         torch.aten.permute %{{.*}} -> !torch.vtensor<[3,3,2,4,3],f32>
// CHECK:         tcp.replication_pad %{{.*}} lowerExpansion [0, 0, 0, 0, 1] upperExpansion [0, 0, 0, 0, 0]
// CHECK:         torch.aten.permute %{{.*}} -> !torch.vtensor<[3,3,4,2,4],f32>
// CHECK-NOT:     tcp.replication_pad
func.func @three_others(%x : tensor<2x2x3x2x4xf32>) -> tensor<2x3x4x2x4xf32> {
  %0 = tcp.replication_pad %x lowerExpansion [1, 1, 1, 0, 0] upperExpansion [-1, 0, 0, 0, 0] : tensor<2x2x3x2x4xf32> -> tensor<2x3x4x2x4xf32>
  return %0 : tensor<2x3x4x2x4xf32>
}

// CHECK-LABEL: func.func @booleans
// CHECK:         torch.aten._to_copy
// CHECK:         tcp.replication_pad
// CHECK:         torch.aten._to_copy
func.func @booleans(%x : tensor<2x3xi1>) -> tensor<2x4xi1> {
  %0 = tcp.replication_pad %x lowerExpansion [0, 1] upperExpansion [0, 0] : tensor<2x3xi1> -> tensor<2x4xi1>
  return %0 : tensor<2x4xi1>
}
