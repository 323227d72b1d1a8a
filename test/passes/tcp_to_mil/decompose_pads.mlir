// RUN: padc-opt -p decompose-pads,canonicalize %s | filecheck %s
// RUN: padc-opt -p 'decompose-pads{policy=decompose},canonicalize' %s | filecheck %s --check-prefix=NONE

// Which pads stay, and what becomes of others; that it computes the same is tested in
// Python.

// CHECK-LABEL: func.func @last_two
// CHECK-NEXT:    tcp.replication_pad %x lowerExpansion [0, 0, 2, -1] upperExpansion [0, 0, 0, 3]
// CHECK-NEXT:    return
// NONE-LABEL:  func.func @last_two
// NONE:          torch.aten.repeat
// NONE:          torch.aten.cat
// NONE:          torch.aten.repeat
// NONE:          torch.aten.cat
// NONE:          torch.aten.slice.Tensor
// NONE-NOT:      tcp.
func.func @last_two(%x : tensor<1x2x2x4xf32>) -> tensor<1x2x4x6xf32> {
  %0 = tcp.replication_pad %x lowerExpansion [0, 0, 2, -1] upperExpansion [0, 0, 0, 3] : tensor<1x2x2x4xf32> -> tensor<1x2x4x6xf32>
  return %0 : tensor<1x2x4x6xf32>
}

// Core ML refuses the third dimension from the end; it pads the others at once.
// CHECK-LABEL: func.func @another_dimension
// CHECK:         torch.aten.slice.Tensor
// CHECK:         torch.aten.repeat
// CHECK:         torch.aten.cat
// CHECK:         tcp.replication_pad %{{.*}} lowerExpansion [0, 0, 0, 0, 1] upperExpansion [0, 0, 0, 1, 0]
// CHECK-NEXT:    return
func.func @another_dimension(%x : tensor<1x2x3x2x4xf32>) -> tensor<1x2x5x3x5xf32> {
  %0 = tcp.replication_pad %x lowerExpansion [0, 0, 2, 0, 1] upperExpansion [0, 0, 0, 1, 0] : tensor<1x2x3x2x4xf32> -> tensor<1x2x5x3x5xf32>
  return %0 : tensor<1x2x5x3x5xf32>
}

// CHECK-LABEL: func.func @reflection_of_another_dimension
// CHECK:         torch.aten.flip
// CHECK:         torch.aten.cat
// CHECK-NOT:     tcp.
func.func @reflection_of_another_dimension(%x : tensor<3x2x4xf32>) -> tensor<5x2x4xf32> {
  %0 = tcp.reflection_pad %x lowerExpansion [2, 0, 0] upperExpansion [0, 0, 0] : tensor<3x2x4xf32> -> tensor<5x2x4xf32>
  return %0 : tensor<5x2x4xf32>
}

// CHECK-LABEL: func.func @wider_than_the_input
// CHECK:         torch.aten.repeat
// CHECK-NOT:     tcp.
func.func @wider_than_the_input(%x : tensor<2x4xf32>) -> tensor<2x9xf32> {
  %0 = tcp.replication_pad %x lowerExpansion [0, 5] upperExpansion [0, 0] : tensor<2x4xf32> -> tensor<2x9xf32>
  return %0 : tensor<2x9xf32>
}

// CHECK-LABEL: func.func @circular
// CHECK:         %[[CROPPED:.*]] = torch.aten.slice.Tensor %{{.*}} -> !torch.vtensor<[2,3],f32>
// CHECK:         %[[END:.*]] = torch.aten.slice.Tensor %[[CROPPED]], {{.*}} -> !torch.vtensor<[2,2],f32>
// CHECK:         torch.prim.ListConstruct %[[END]], %[[CROPPED]]
// CHECK-NEXT:    torch.constant.int 1
// CHECK-NEXT:    torch.aten.cat
// CHECK-NOT:     tcp.
func.func @circular(%x : tensor<2x4xf32>) -> tensor<2x5xf32> {
  %0 = tcp.circular_pad %x lowerExpansion [0, 2] upperExpansion [0, -1] : tensor<2x4xf32> -> tensor<2x5xf32>
  return %0 : tensor<2x5xf32>
}

// CHECK-LABEL: func.func @constant
// CHECK-NEXT:    arith.constant
// CHECK-NEXT:    tcp.pad
// CHECK-NEXT:    return
// NONE-LABEL:  func.func @constant
// NONE-NEXT:     arith.constant
// NONE-NEXT:     tcp.pad
// NONE-NEXT:     return
func.func @constant(%x : tensor<4x2x2xf32>) -> tensor<5x2x2xf32> {
  %f = arith.constant 1.0 : f32
  %0 = tcp.pad %x, %f lowerExpansion [2, 0, 0] upperExpansion [-1, 0, 0] : tensor<4x2x2xf32>, f32 -> tensor<5x2x2xf32>
  return %0 : tensor<5x2x2xf32>
}

// CHECK-LABEL: func.func @integers
// CHECK:         torch.constant.int -1
// CHECK:         torch.aten.new_full
// CHECK:         torch.aten.cat
// CHECK-NOT:     tcp.
func.func @integers(%x : tensor<2x?xi32>) -> tensor<3x?xi32> {
  %f = arith.constant 4294967295 : i32
  %0 = tcp.pad %x, %f lowerExpansion [1, 0] upperExpansion [0, 0] : tensor<2x?xi32>, i32 -> tensor<3x?xi32>
  return %0 : tensor<3x?xi32>
}

// Floats represent booleans exactly.
// CHECK-LABEL: func.func @booleans
// CHECK:         torch.aten._to_copy
// CHECK:         tcp.pad {{.*}} : tensor<2x?xf32>, f32 -> tensor<3x?xf32>
// CHECK:         torch.aten._to_copy
func.func @booleans(%x : tensor<2x?xi1>) -> tensor<3x?xi1> {
  %f = arith.constant true
  %0 = tcp.pad %x, %f lowerExpansion [1, 0] upperExpansion [0, 0] : tensor<2x?xi1>, i1 -> tensor<3x?xi1>
  return %0 : tensor<3x?xi1>
}

// The sizes of the result may be more static than those of the input.
// CHECK-LABEL: func.func @refined
// CHECK-NEXT:    arith.constant
// CHECK-NEXT:    tcp.pad {{.*}} : tensor<2x?xf32>, f32 -> tensor<3x6xf32>
// CHECK-NEXT:    tcp.reflection_pad {{.*}} : tensor<2x?xf32> -> tensor<2x6xf32>
// CHECK-NEXT:    return
func.func @refined(%x : tensor<2x?xf32>) -> (tensor<3x6xf32>, tensor<2x6xf32>) {
  %f = arith.constant 1.0 : f32
  %0 = tcp.pad %x, %f lowerExpansion [1, 1] upperExpansion [0, 0] : tensor<2x?xf32>, f32 -> tensor<3x6xf32>
  %1 = tcp.reflection_pad %x lowerExpansion [0, 1] upperExpansion [0, 0] : tensor<2x?xf32> -> tensor<2x6xf32>
  return %0, %1 : tensor<3x6xf32>, tensor<2x6xf32>
}

// A dimension that gains nothing keeps some of its elements.
// CHECK-LABEL: func.func @crop_and_pad
// CHECK-NEXT:    arith.constant
// CHECK-NEXT:    tcp.pad
// CHECK-NEXT:    return
func.func @crop_and_pad(%x : tensor<?x2xf32>) -> tensor<?x3xf32> {
  %f = arith.constant 1.0 : f32
  %0 = tcp.pad %x, %f lowerExpansion [-1, 1] upperExpansion [0, 0] : tensor<?x2xf32>, f32 -> tensor<?x3xf32>
  return %0 : tensor<?x3xf32>
}

// The pad of floats takes one op, and concatenations take two.
// CHECK-LABEL: func.func @interior_of_booleans
// CHECK:         torch.aten._to_copy {{.*}} -> !torch.vtensor<[4],f32>
// CHECK:         tcp.pad {{.*}} : tensor<1x4x1x1xf32>, f32 -> tensor<1x4x2x1xf32>
// CHECK:         torch.aten._to_copy {{.*}} -> !torch.vtensor<[7],i1>
func.func @interior_of_booleans(%x : tensor<4xi1>) -> tensor<7xi1> {
  %f = arith.constant true
  %0 = tcp.pad %x, %f lowerExpansion [0] upperExpansion [0] interiorExpansion [1] : tensor<4xi1>, i1 -> tensor<7xi1>
  return %0 : tensor<7xi1>
}

// CHECK-LABEL: func.func @interior
// CHECK:         torch.aten.reshape %{{.*}} -> !torch.vtensor<[2,4,1,3],f32>
// CHECK:         tcp.pad %{{.*}} lowerExpansion [0, 0, 0, 0] upperExpansion [0, 0, 1, 0]
// CHECK:         torch.aten.reshape %{{.*}} -> !torch.vtensor<[2,8,3],f32>
// CHECK:         torch.aten.slice.Tensor %{{.*}} -> !torch.vtensor<[2,7,3],f32>
// CHECK:         tcp.pad %{{.*}} lowerExpansion [0, 1, 0] upperExpansion [0, 0, 0]
func.func @interior(%x : tensor<2x4x3xf32>) -> tensor<2x8x3xf32> {
  %f = arith.constant 0.0 : f32
  %0 = tcp.pad %x, %f lowerExpansion [0, 1, 0] upperExpansion [0, 0, 0] interiorExpansion [0, 1, 0] : tensor<2x4x3xf32>, f32 -> tensor<2x8x3xf32>
  return %0 : tensor<2x8x3xf32>
}

// Nothing of the input is left.
// CHECK-LABEL: func.func @cropped_away
// CHECK:         torch.aten.new_full
// CHECK-NOT:     tcp.
func.func @cropped_away(%x : tensor<2x4xf32>) -> tensor<2x3xf32> {
  %f = arith.constant 1.5 : f32
  %0 = tcp.pad %x, %f lowerExpansion [0, -4] upperExpansion [0, 3] : tensor<2x4xf32>, f32 -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @computed
// CHECK:         torch.aten.arange.start
// CHECK:         torch.aten.clamp
// CHECK:         torch.aten.index_select
// CHECK:         torch.aten.arange.start
// CHECK:         torch.aten.index_select
// CHECK:         tcp.reflection_pad %{{.*}} lowerExpansion [1, 0] upperExpansion [0, 0]
// CHECK:         return
func.func @computed(%x : tensor<4x4xf32>, %n : !torch.int) -> (tensor<4x?xf32>, tensor<5x?xf32>) {
  %f = arith.constant 1.5 : f32
  %0 = torch_c.to_i64 %n
  %1 = arith.index_cast %0 : i64 to index
  %2 = tcp.pad %x, %f lowerExpansion [0, %1] upperExpansion [0, 0] : tensor<4x4xf32>, f32 -> tensor<4x?xf32>
  %3 = tcp.reflection_pad %x lowerExpansion [1, 0] upperExpansion [0, %1] : tensor<4x4xf32> -> tensor<5x?xf32>
  return %2, %3 : tensor<4x?xf32>, tensor<5x?xf32>
}

// Core ML gathers no booleans.
// CHECK-LABEL: func.func @computed_booleans
// CHECK:         torch.aten._to_copy {{.*}} -> !torch.vtensor<[4],f32>
// CHECK:         torch.aten.index_select
// CHECK:         torch.aten._to_copy {{.*}} -> !torch.vtensor<[?],i1>
func.func @computed_booleans(%x : tensor<4xi1>, %n : !torch.int) -> tensor<?xi1> {
  %0 = torch_c.to_i64 %n
  %1 = arith.index_cast %0 : i64 to index
  %2 = tcp.replication_pad %x lowerExpansion [%1] upperExpansion [0] : tensor<4xi1> -> tensor<?xi1>
  return %2 : tensor<?xi1>
}

// Core ML has no such tensors, and ATen has no amounts that it did not compute.
// CHECK-LABEL: func.func @left_alone
// CHECK-NEXT:    tcp.circular_pad
// CHECK-NEXT:    tcp.circular_pad
// CHECK-NEXT:    tcp.circular_pad
// CHECK-NEXT:    tcp.pad
// CHECK-NEXT:    tcp.circular_pad
// CHECK-NEXT:    arith.constant
// CHECK-NEXT:    tcp.pad
// CHECK-NEXT:    return
func.func @left_alone(%x : tensor<1x1x1x1x1x4xf32>, %y : tensor<0x4xf32>, %z : tensor<4xi32>, %n : index, %f : i32) -> (tensor<1x1x1x1x1x5xf32>, tensor<0x5xf32>, tensor<?xi32>, tensor<5xi32>, tensor<?xi32>, tensor<?xi32>) {
  %0 = tcp.circular_pad %x lowerExpansion [0, 0, 0, 0, 0, 1] upperExpansion [0, 0, 0, 0, 0, 0] : tensor<1x1x1x1x1x4xf32> -> tensor<1x1x1x1x1x5xf32>
  %1 = tcp.circular_pad %y lowerExpansion [0, 1] upperExpansion [0, 0] : tensor<0x4xf32> -> tensor<0x5xf32>
  %2 = tcp.circular_pad %z lowerExpansion [%n] upperExpansion [0] : tensor<4xi32> -> tensor<?xi32>
  %3 = tcp.pad %z, %f lowerExpansion [1] upperExpansion [0] : tensor<4xi32>, i32 -> tensor<5xi32>
  %4 = tcp.circular_pad %z lowerExpansion [0] upperExpansion [%n] : tensor<4xi32> -> tensor<?xi32>
  %g = arith.constant 1 : i32
  %5 = tcp.pad %z, %g lowerExpansion [0] upperExpansion [0] interiorExpansion [%n] : tensor<4xi32>, i32 -> tensor<?xi32>
  return %0, %1, %2, %3, %4, %5 : tensor<1x1x1x1x1x5xf32>, tensor<0x5xf32>, tensor<?xi32>, tensor<5xi32>, tensor<?xi32>, tensor<?xi32>
}
