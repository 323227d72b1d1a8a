// RUN: padc-opt -p canonicalize %s | filecheck %s

// CHECK-LABEL: func.func @pad_by_nothing
// CHECK-NEXT:    return %x, %x, %x
func.func @pad_by_nothing(%x : tensor<3x?xf32>, %f : f32) -> (tensor<3x?xf32>, tensor<3x?xf32>, tensor<3x?xf32>) {
  %0 = tcp.pad %x, %f lowerExpansion [0, 0] upperExpansion [0, 0] : tensor<3x?xf32>, f32 -> tensor<3x?xf32>
  %1 = tcp.reflection_pad %x lowerExpansion [0, 0] upperExpansion [0, 0] : tensor<3x?xf32> -> tensor<3x?xf32>
  %2 = tcp.circular_pad %1 lowerExpansion [0, 0] upperExpansion [0, 0] : tensor<3x?xf32> -> tensor<3x?xf32>
  return %0, %1, %2 : tensor<3x?xf32>, tensor<3x?xf32>, tensor<3x?xf32>
}

// As many elements in as out, but not the same ones.
// CHECK-LABEL: func.func @shift
// CHECK-NEXT:    tcp.pad
// CHECK-NEXT:    tcp.circular_pad
func.func @shift(%x : tensor<4xf32>, %f : f32) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = tcp.pad %x, %f lowerExpansion [-1] upperExpansion [1] : tensor<4xf32>, f32 -> tensor<4xf32>
  %1 = tcp.circular_pad %x lowerExpansion [1] upperExpansion [-1] : tensor<4xf32> -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @interior_is_something
// CHECK-NEXT:    tcp.pad
// CHECK-NEXT:    tcp.pad
func.func @interior_is_something(%x : tensor<2xf32>, %y : tensor<?xf32>, %f : f32) -> (tensor<4xf32>, tensor<?xf32>) {
  %0 = tcp.pad %x, %f lowerExpansion [0] upperExpansion [0] interiorExpansion [2] : tensor<2xf32>, f32 -> tensor<4xf32>
  %1 = tcp.pad %y, %f lowerExpansion [0] upperExpansion [0] interiorExpansion [2] : tensor<?xf32>, f32 -> tensor<?xf32>
  return %0, %1 : tensor<4xf32>, tensor<?xf32>
}

// Nothing is between one element, or none.
// CHECK-LABEL: func.func @interior_is_nothing
// CHECK-NEXT:    %[[Y:.*]] = tcp.pad %x, %f lowerExpansion [0, 1] upperExpansion [0, 0] : tensor<1x0xf32>, f32 -> tensor<1x1xf32>
// CHECK-NEXT:    return %[[Y]]
func.func @interior_is_nothing(%x : tensor<1x0xf32>, %f : f32) -> tensor<1x1xf32> {
  %0 = tcp.pad %x, %f lowerExpansion [0, 1] upperExpansion [0, 0] interiorExpansion [2, 3] : tensor<1x0xf32>, f32 -> tensor<1x1xf32>
  return %0 : tensor<1x1xf32>
}

// CHECK-LABEL: func.func @constant_amounts
// CHECK-NEXT:    %[[A:.*]] = tcp.pad %x, %f lowerExpansion [2, %n] upperExpansion [-1, 2] : tensor<3x8xf32>, f32 -> tensor<4x11xf32>
// CHECK-NEXT:    %[[B:.*]] = tcp.pad %x, %f lowerExpansion [0, 0] upperExpansion [0, 0] interiorExpansion [2, 0] : tensor<3x8xf32>, f32 -> tensor<7x8xf32>
// CHECK-NEXT:    %[[C:.*]] = tcp.reflection_pad %x lowerExpansion [0, 2] upperExpansion [0, 0] : tensor<3x8xf32> -> tensor<3x10xf32>
// CHECK-NEXT:    return %[[A]], %[[B]], %[[C]]
func.func @constant_amounts(%x : tensor<3x8xf32>, %f : f32, %n : index) -> (tensor<4x11xf32>, tensor<7x8xf32>, tensor<3x10xf32>) {
  %c2 = arith.constant 2 : index
  %c-1 = arith.constant -1 : index
  %0 = tcp.pad %x, %f lowerExpansion [%c2, %n] upperExpansion [%c-1, 2] : tensor<3x8xf32>, f32 -> tensor<4x11xf32>
  %1 = tcp.pad %x, %f lowerExpansion [0, 0] upperExpansion [0, 0] interiorExpansion [%c2, 0] : tensor<3x8xf32>, f32 -> tensor<7x8xf32>
  %2 = tcp.reflection_pad %x lowerExpansion [0, %c2] upperExpansion [0, 0] : tensor<3x8xf32> -> tensor<3x10xf32>
  return %0, %1, %2 : tensor<4x11xf32>, tensor<7x8xf32>, tensor<3x10xf32>
}

// The users have the dynamic type.
// CHECK-LABEL: func.func @constant_amount_of_dynamic_result
// CHECK:         tcp.circular_pad %x lowerExpansion [%{{.*}}] upperExpansion [0] : tensor<8xf32> -> tensor<?xf32>
func.func @constant_amount_of_dynamic_result(%x : tensor<8xf32>) -> tensor<?xf32> {
  %c2 = arith.constant 2 : index
  %0 = tcp.circular_pad %x lowerExpansion [%c2] upperExpansion [0] : tensor<8xf32> -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// CHECK-LABEL: func.func @pad_of_pad
// CHECK-NEXT:    %[[Y:.*]] = tcp.pad %x, %f lowerExpansion [2, 2] upperExpansion [-5, 1] : tensor<?x8xf32>, f32 -> tensor<?x11xf32>
// CHECK-NEXT:    return %[[Y]]
func.func @pad_of_pad(%x : tensor<?x8xf32>, %f : f32) -> tensor<?x11xf32> {
  %0 = tcp.pad %x, %f lowerExpansion [0, 3] upperExpansion [-2, 0] : tensor<?x8xf32>, f32 -> tensor<?x11xf32>
  %1 = tcp.pad %0, %f lowerExpansion [2, -1] upperExpansion [-3, 1] : tensor<?x11xf32>, f32 -> tensor<?x11xf32>
  return %1 : tensor<?x11xf32>
}

// Attributes have 64 bits.
// CHECK-LABEL: func.func @pads_that_together_are_too_large
// CHECK-NEXT:    tcp.pad %x, %f lowerExpansion [4611686018427387904]
// CHECK-NEXT:    tcp.pad %{{.*}}, %f lowerExpansion [4611686018427387904]
// CHECK-NEXT:    tcp.pad %x, %f lowerExpansion [0] upperExpansion [0] interiorExpansion [4294967295]
// CHECK-NEXT:    tcp.pad %{{.*}}, %f lowerExpansion [0] upperExpansion [0] interiorExpansion [4294967295]
func.func @pads_that_together_are_too_large(%x : tensor<?xf32>, %f : f32) -> (tensor<?xf32>, tensor<?xf32>) {
  %0 = tcp.pad %x, %f lowerExpansion [4611686018427387904] upperExpansion [-4611686018427387904] : tensor<?xf32>, f32 -> tensor<?xf32>
  %1 = tcp.pad %0, %f lowerExpansion [4611686018427387904] upperExpansion [-4611686018427387904] : tensor<?xf32>, f32 -> tensor<?xf32>
  %2 = tcp.pad %x, %f lowerExpansion [0] upperExpansion [0] interiorExpansion [4294967295] : tensor<?xf32>, f32 -> tensor<?xf32>
  %3 = tcp.pad %2, %f lowerExpansion [0] upperExpansion [0] interiorExpansion [4294967295] : tensor<?xf32>, f32 -> tensor<?xf32>
  return %1, %3 : tensor<?xf32>, tensor<?xf32>
}

// Two pads that undo each other fold to nothing.
// CHECK-LABEL: func.func @crop_of_pad
// CHECK-NEXT:    return %x
func.func @crop_of_pad(%x : tensor<8xf32>, %f : f32) -> tensor<8xf32> {
  %0 = tcp.pad %x, %f lowerExpansion [2] upperExpansion [3] : tensor<8xf32>, f32 -> tensor<13xf32>
  %1 = tcp.pad %0, %f lowerExpansion [-2] upperExpansion [-3] : tensor<13xf32>, f32 -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// Equal constants are one fill.
// CHECK-LABEL: func.func @equal_fills
// CHECK:         %[[Y:.*]] = tcp.pad %x, %{{.*}} lowerExpansion [2] upperExpansion [0] : tensor<8xf32>, f32 -> tensor<10xf32>
// CHECK-NEXT:    return %[[Y]]
func.func @equal_fills(%x : tensor<8xf32>) -> tensor<10xf32> {
  %f0 = arith.constant 1.5 : f32
  %f1 = arith.constant 1.5 : f32
  %0 = tcp.pad %x, %f0 lowerExpansion [1] upperExpansion [0] : tensor<8xf32>, f32 -> tensor<9xf32>
  %1 = tcp.pad %0, %f1 lowerExpansion [1] upperExpansion [0] : tensor<9xf32>, f32 -> tensor<10xf32>
  return %1 : tensor<10xf32>
}

// 0.0 and -0.0 are different fills, and so may be two arguments.
// CHECK-LABEL: func.func @other_fills
// CHECK-COUNT-4: tcp.pad
func.func @other_fills(%x : tensor<8xf32>, %g : f32, %h : f32) -> (tensor<10xf32>, tensor<10xf32>) {
  %f0 = arith.constant 0.0 : f32
  %f1 = arith.constant -0.0 : f32
  %0 = tcp.pad %x, %f0 lowerExpansion [1] upperExpansion [0] : tensor<8xf32>, f32 -> tensor<9xf32>
  %1 = tcp.pad %0, %f1 lowerExpansion [1] upperExpansion [0] : tensor<9xf32>, f32 -> tensor<10xf32>
  %2 = tcp.pad %x, %g lowerExpansion [1] upperExpansion [0] : tensor<8xf32>, f32 -> tensor<9xf32>
  %3 = tcp.pad %2, %h lowerExpansion [1] upperExpansion [0] : tensor<9xf32>, f32 -> tensor<10xf32>
  return %1, %3 : tensor<10xf32>, tensor<10xf32>
}

// What the inner pad cropped is not there to be shown again.
// CHECK-LABEL: func.func @pad_of_crop
// CHECK-NEXT:    tcp.pad %{{.*}} lowerExpansion [-1]
// CHECK-NEXT:    tcp.pad %{{.*}} lowerExpansion [2]
func.func @pad_of_crop(%x : tensor<8xf32>, %f : f32) -> tensor<9xf32> {
  %0 = tcp.pad %x, %f lowerExpansion [-1] upperExpansion [0] : tensor<8xf32>, f32 -> tensor<7xf32>
  %1 = tcp.pad %0, %f lowerExpansion [2] upperExpansion [0] : tensor<7xf32>, f32 -> tensor<9xf32>
  return %1 : tensor<9xf32>
}

// The outer pad crops the whole input and some of what was added above.
// CHECK-LABEL: func.func @crop_through_the_input
// CHECK-NEXT:    tcp.pad %{{.*}} upperExpansion [3]
// CHECK-NEXT:    tcp.pad %{{.*}} upperExpansion [0]
func.func @crop_through_the_input(%x : tensor<?xf32>, %f : f32) -> tensor<?xf32> {
  %0 = tcp.pad %x, %f lowerExpansion [0] upperExpansion [3] : tensor<?xf32>, f32 -> tensor<?xf32>
  %1 = tcp.pad %0, %f lowerExpansion [-4] upperExpansion [0] : tensor<?xf32>, f32 -> tensor<?xf32>
  return %1 : tensor<?xf32>
}

// The steps multiply; what was added is spread, too.
// CHECK-LABEL: func.func @interior_of_interior
// CHECK-NEXT:    %[[A:.*]] = tcp.pad %x, %f lowerExpansion [0] upperExpansion [1] interiorExpansion [5] : tensor<?xf32>, f32 -> tensor<?xf32>
// CHECK-NEXT:    %[[B:.*]] = tcp.pad %y, %f lowerExpansion [5] upperExpansion [1] interiorExpansion [1] : tensor<4xf32>, f32 -> tensor<13xf32>
// CHECK-NEXT:    return %[[A]], %[[B]]
func.func @interior_of_interior(%x : tensor<?xf32>, %y : tensor<4xf32>, %f : f32) -> (tensor<?xf32>, tensor<13xf32>) {
  %0 = tcp.pad %x, %f lowerExpansion [0] upperExpansion [0] interiorExpansion [1] : tensor<?xf32>, f32 -> tensor<?xf32>
  %1 = tcp.pad %0, %f lowerExpansion [0] upperExpansion [1] interiorExpansion [2] : tensor<?xf32>, f32 -> tensor<?xf32>
  %2 = tcp.pad %y, %f lowerExpansion [2] upperExpansion [0] : tensor<4xf32>, f32 -> tensor<6xf32>
  %3 = tcp.pad %2, %f lowerExpansion [1] upperExpansion [1] interiorExpansion [1] : tensor<6xf32>, f32 -> tensor<13xf32>
  return %1, %3 : tensor<?xf32>, tensor<13xf32>
}

// Of no elements, fills are spread that were added: there is no interior then.
// CHECK-LABEL: func.func @interior_of_what_may_be_all_fill
// CHECK-COUNT-2: tcp.pad
func.func @interior_of_what_may_be_all_fill(%x : tensor<?xf32>, %f : f32) -> tensor<?xf32> {
  %0 = tcp.pad %x, %f lowerExpansion [2] upperExpansion [0] : tensor<?xf32>, f32 -> tensor<?xf32>
  %1 = tcp.pad %0, %f lowerExpansion [0] upperExpansion [0] interiorExpansion [1] : tensor<?xf32>, f32 -> tensor<?xf32>
  return %1 : tensor<?xf32>
}

// CHECK-LABEL: func.func @pad_of_interior
// CHECK-NEXT:    %[[Y:.*]] = tcp.pad %x, %f lowerExpansion [-1] upperExpansion [2] interiorExpansion [1] : tensor<4xf32>, f32 -> tensor<8xf32>
// CHECK-NEXT:    return %[[Y]]
func.func @pad_of_interior(%x : tensor<4xf32>, %f : f32) -> tensor<8xf32> {
  %0 = tcp.pad %x, %f lowerExpansion [0] upperExpansion [0] interiorExpansion [1] : tensor<4xf32>, f32 -> tensor<7xf32>
  %1 = tcp.pad %0, %f lowerExpansion [-1] upperExpansion [2] : tensor<7xf32>, f32 -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// CHECK-LABEL: func.func @dynamic_amounts
// CHECK-COUNT-2: tcp.pad
func.func @dynamic_amounts(%x : tensor<8xf32>, %f : f32, %n : index) -> tensor<?xf32> {
  %0 = tcp.pad %x, %f lowerExpansion [%n] upperExpansion [0] : tensor<8xf32>, f32 -> tensor<?xf32>
  %1 = tcp.pad %0, %f lowerExpansion [1] upperExpansion [0] : tensor<?xf32>, f32 -> tensor<?xf32>
  return %1 : tensor<?xf32>
}

// The inner pad is made anyway: to pad it again moves less than to pad the input.
// CHECK-LABEL: func.func @shared_inner_pad
// CHECK-NEXT:    %[[A:.*]] = tcp.pad %x
// CHECK-NEXT:    %[[B:.*]] = tcp.pad %[[A]]
// CHECK-NEXT:    %[[C:.*]] = tcp.replication_pad %x
// CHECK-NEXT:    %[[D:.*]] = tcp.replication_pad %[[C]]
func.func @shared_inner_pad(%x : tensor<8xf32>, %f : f32) -> (tensor<9xf32>, tensor<10xf32>, tensor<9xf32>, tensor<10xf32>) {
  %0 = tcp.pad %x, %f lowerExpansion [1] upperExpansion [0] : tensor<8xf32>, f32 -> tensor<9xf32>
  %1 = tcp.pad %0, %f lowerExpansion [1] upperExpansion [0] : tensor<9xf32>, f32 -> tensor<10xf32>
  %2 = tcp.replication_pad %x lowerExpansion [1] upperExpansion [0] : tensor<8xf32> -> tensor<9xf32>
  %3 = tcp.replication_pad %2 lowerExpansion [1] upperExpansion [0] : tensor<9xf32> -> tensor<10xf32>
  return %0, %1, %2, %3 : tensor<9xf32>, tensor<10xf32>, tensor<9xf32>, tensor<10xf32>
}

// CHECK-LABEL: func.func @replication_of_replication
// CHECK-NEXT:    %[[Y:.*]] = tcp.replication_pad %x lowerExpansion [1, -3] upperExpansion [5, 0] : tensor<3x8xf32> -> tensor<9x5xf32>
// CHECK-NEXT:    return %[[Y]]
func.func @replication_of_replication(%x : tensor<3x8xf32>) -> tensor<9x5xf32> {
  %0 = tcp.replication_pad %x lowerExpansion [0, -1] upperExpansion [2, 0] : tensor<3x8xf32> -> tensor<5x7xf32>
  %1 = tcp.replication_pad %0 lowerExpansion [1, -2] upperExpansion [3, 0] : tensor<5x7xf32> -> tensor<9x5xf32>
  return %1 : tensor<9x5xf32>
}

// The outer pad repeats the edge that the inner one cropped to.
// CHECK-LABEL: func.func @replication_of_crop
// CHECK:         tcp.pad %{{.*}} lowerExpansion [-1]
// CHECK-NEXT:    tcp.replication_pad %{{.*}} lowerExpansion [2]
func.func @replication_of_crop(%x : tensor<8xf32>) -> tensor<9xf32> {
  %0 = tcp.replication_pad %x lowerExpansion [-1] upperExpansion [0] : tensor<8xf32> -> tensor<7xf32>
  %1 = tcp.replication_pad %0 lowerExpansion [2] upperExpansion [0] : tensor<7xf32> -> tensor<9xf32>
  return %1 : tensor<9xf32>
}

// Mirrored or wrapped twice is not mirrored or wrapped once as far.
// CHECK-LABEL: func.func @reflection_of_reflection
// CHECK-COUNT-2: tcp.reflection_pad
// CHECK-COUNT-2: tcp.circular_pad
func.func @reflection_of_reflection(%x : tensor<8xf32>) -> (tensor<12xf32>, tensor<12xf32>) {
  %0 = tcp.reflection_pad %x lowerExpansion [2] upperExpansion [0] : tensor<8xf32> -> tensor<10xf32>
  %1 = tcp.reflection_pad %0 lowerExpansion [2] upperExpansion [0] : tensor<10xf32> -> tensor<12xf32>
  %2 = tcp.circular_pad %x lowerExpansion [2] upperExpansion [0] : tensor<8xf32> -> tensor<10xf32>
  %3 = tcp.circular_pad %2 lowerExpansion [2] upperExpansion [0] : tensor<10xf32> -> tensor<12xf32>
  return %1, %3 : tensor<12xf32>, tensor<12xf32>
}

// Each side, or each dimension, by itself: what is mirrored above is not what was below.
// CHECK-LABEL: func.func @one_side_after_the_other
// CHECK-NEXT:    %[[A:.*]] = tcp.reflection_pad %x lowerExpansion [2] upperExpansion [2] : tensor<?xf32> -> tensor<?xf32>
// CHECK-NEXT:    %[[B:.*]] = tcp.circular_pad %y lowerExpansion [%n, 3] upperExpansion [0, 0] : tensor<?x?xf32> -> tensor<?x?xf32>
// CHECK-NEXT:    return %[[A]], %[[B]]
func.func @one_side_after_the_other(%x : tensor<?xf32>, %y : tensor<?x?xf32>, %n : index) -> (tensor<?xf32>, tensor<?x?xf32>) {
  %0 = tcp.reflection_pad %x lowerExpansion [2] upperExpansion [0] : tensor<?xf32> -> tensor<?xf32>
  %1 = tcp.reflection_pad %0 lowerExpansion [0] upperExpansion [2] : tensor<?xf32> -> tensor<?xf32>
  %2 = tcp.circular_pad %y lowerExpansion [%n, 0] upperExpansion [0, 0] : tensor<?x?xf32> -> tensor<?x?xf32>
  %3 = tcp.circular_pad %2 lowerExpansion [0, 3] upperExpansion [0, 0] : tensor<?x?xf32> -> tensor<?x?xf32>
  return %1, %3 : tensor<?xf32>, tensor<?x?xf32>
}

// A circular pad's upper end shows what its lower end brought to the front.
// CHECK-LABEL: func.func @circular_sides_are_not_apart
// CHECK-COUNT-2: tcp.circular_pad
func.func @circular_sides_are_not_apart(%x : tensor<8xf32>) -> tensor<12xf32> {
  %0 = tcp.circular_pad %x lowerExpansion [2] upperExpansion [0] : tensor<8xf32> -> tensor<10xf32>
  %1 = tcp.circular_pad %0 lowerExpansion [0] upperExpansion [2] : tensor<10xf32> -> tensor<12xf32>
  return %1 : tensor<12xf32>
}

// A crop shows no fill.
// CHECK-LABEL: func.func @crop_of_other_fill
// CHECK-NEXT:    %[[A:.*]] = tcp.pad %x, %f lowerExpansion [1] upperExpansion [2] : tensor<?xf32>, f32 -> tensor<?xf32>
// CHECK-NEXT:    %[[B:.*]] = tcp.pad %x, %f lowerExpansion [-1] upperExpansion [2] : tensor<?xf32>, f32 -> tensor<?xf32>
// CHECK-NEXT:    return %[[A]], %[[B]]
func.func @crop_of_other_fill(%x : tensor<?xf32>, %f : f32, %g : f32) -> (tensor<?xf32>, tensor<?xf32>) {
  %0 = tcp.pad %x, %f lowerExpansion [2] upperExpansion [2] : tensor<?xf32>, f32 -> tensor<?xf32>
  %1 = tcp.pad %0, %g lowerExpansion [-1] upperExpansion [0] : tensor<?xf32>, f32 -> tensor<?xf32>
  %2 = tcp.pad %x, %g lowerExpansion [-1] upperExpansion [0] : tensor<?xf32>, f32 -> tensor<?xf32>
  %3 = tcp.pad %2, %f lowerExpansion [0] upperExpansion [2] : tensor<?xf32>, f32 -> tensor<?xf32>
  return %1, %3 : tensor<?xf32>, tensor<?xf32>
}

// CHECK-LABEL: func.func @crop_of_border
// CHECK-NEXT:    %[[A:.*]] = tcp.replication_pad %x lowerExpansion [-1] upperExpansion [1]
// CHECK-NEXT:    %[[B:.*]] = tcp.reflection_pad %x lowerExpansion [1] upperExpansion [2]
// CHECK-NEXT:    %[[C:.*]] = tcp.circular_pad %x lowerExpansion [0] upperExpansion [2]
// CHECK-NEXT:    return %[[A]], %[[B]], %[[C]]
func.func @crop_of_border(%x : tensor<8xf32>, %f : f32) -> (tensor<8xf32>, tensor<11xf32>, tensor<10xf32>) {
  %0 = tcp.replication_pad %x lowerExpansion [2] upperExpansion [2] : tensor<8xf32> -> tensor<12xf32>
  %1 = tcp.pad %0, %f lowerExpansion [-3] upperExpansion [-1] : tensor<12xf32>, f32 -> tensor<8xf32>
  %2 = tcp.reflection_pad %x lowerExpansion [2] upperExpansion [3] : tensor<8xf32> -> tensor<13xf32>
  %3 = tcp.pad %2, %f lowerExpansion [-1] upperExpansion [-1] : tensor<13xf32>, f32 -> tensor<11xf32>
  %4 = tcp.circular_pad %x lowerExpansion [2] upperExpansion [2] : tensor<8xf32> -> tensor<12xf32>
  %5 = tcp.pad %4, %f lowerExpansion [-2] upperExpansion [0] : tensor<12xf32>, f32 -> tensor<10xf32>
  return %1, %3, %5 : tensor<8xf32>, tensor<11xf32>, tensor<10xf32>
}

// What wraps around above begins where the crop would be.
// CHECK-LABEL: func.func @crop_of_circular
// CHECK-NEXT:    tcp.circular_pad
// CHECK-NEXT:    tcp.pad
func.func @crop_of_circular(%x : tensor<8xf32>, %f : f32) -> tensor<9xf32> {
  %0 = tcp.circular_pad %x lowerExpansion [2] upperExpansion [2] : tensor<8xf32> -> tensor<12xf32>
  %1 = tcp.pad %0, %f lowerExpansion [-3] upperExpansion [0] : tensor<12xf32>, f32 -> tensor<9xf32>
  return %1 : tensor<9xf32>
}

// CHECK-LABEL: func.func @crop_of_border_of_all
// CHECK:         %[[A:.*]] = tcp.pad %x, %{{.*}} lowerExpansion [-1] upperExpansion [0] : tensor<1xf32>, f32 -> tensor<0xf32>
// CHECK-NEXT:    %[[B:.*]] = tcp.replication_pad %y lowerExpansion [1] upperExpansion [-2] : tensor<?xf32> -> tensor<?xf32>
// CHECK-NEXT:    return %[[A]], %[[B]]
func.func @crop_of_border_of_all(%x : tensor<1xf32>, %y : tensor<?xf32>, %f : f32) -> (tensor<0xf32>, tensor<?xf32>) {
  %0 = tcp.replication_pad %x lowerExpansion [2] upperExpansion [0] : tensor<1xf32> -> tensor<3xf32>
  %1 = tcp.pad %0, %f lowerExpansion [-3] upperExpansion [0] : tensor<3xf32>, f32 -> tensor<0xf32>
  %2 = tcp.replication_pad %y lowerExpansion [2] upperExpansion [0] : tensor<?xf32> -> tensor<?xf32>
  %3 = tcp.pad %2, %f lowerExpansion [-1] upperExpansion [-2] : tensor<?xf32>, f32 -> tensor<?xf32>
  return %1, %3 : tensor<0xf32>, tensor<?xf32>
}

// CHECK-LABEL: func.func @border_of_crop
// CHECK-NEXT:    %[[A:.*]] = tcp.reflection_pad %x lowerExpansion [-2] upperExpansion [3] : tensor<8xf32> -> tensor<9xf32>
// CHECK-NEXT:    return %[[A]]
func.func @border_of_crop(%x : tensor<8xf32>, %f : f32) -> tensor<9xf32> {
  %0 = tcp.pad %x, %f lowerExpansion [-2] upperExpansion [0] : tensor<8xf32>, f32 -> tensor<6xf32>
  %1 = tcp.reflection_pad %0 lowerExpansion [0] upperExpansion [3] : tensor<6xf32> -> tensor<9xf32>
  return %1 : tensor<9xf32>
}

// CHECK-LABEL: func.func @border_that_crops
// CHECK-NEXT:    %[[F:.*]] = arith.constant false
// CHECK-NEXT:    %[[A:.*]] = tcp.pad %x, %[[F]] lowerExpansion [-3] upperExpansion [-1] : tensor<?xi1>, i1 -> tensor<?xi1>
// CHECK-NEXT:    return %[[A]]
func.func @border_that_crops(%x : tensor<?xi1>) -> tensor<?xi1> {
  %0 = tcp.circular_pad %x lowerExpansion [-2] upperExpansion [0] : tensor<?xi1> -> tensor<?xi1>
  %1 = tcp.reflection_pad %0 lowerExpansion [-1] upperExpansion [-1] : tensor<?xi1> -> tensor<?xi1>
  return %1 : tensor<?xi1>
}

// All that is left to see is the input: cropping that is less than cropping the pad.
// CHECK-LABEL: func.func @crop_of_shared_pad
// CHECK-NEXT:    %[[A:.*]] = tcp.pad %x, %f lowerExpansion [1] upperExpansion [1]
// CHECK-NEXT:    %[[B:.*]] = tcp.pad %x, %f lowerExpansion [0] upperExpansion [-1]
// CHECK-NEXT:    return %[[A]], %x, %[[B]]
func.func @crop_of_shared_pad(%x : tensor<8xf32>, %f : f32) -> (tensor<10xf32>, tensor<8xf32>, tensor<7xf32>) {
  %0 = tcp.pad %x, %f lowerExpansion [1] upperExpansion [1] : tensor<8xf32>, f32 -> tensor<10xf32>
  %1 = tcp.pad %0, %f lowerExpansion [-1] upperExpansion [-1] : tensor<10xf32>, f32 -> tensor<8xf32>
  %2 = tcp.pad %0, %f lowerExpansion [-1] upperExpansion [-2] : tensor<10xf32>, f32 -> tensor<7xf32>
  return %0, %1, %2 : tensor<10xf32>, tensor<8xf32>, tensor<7xf32>
}

// CHECK-LABEL: func.func @pad_of_nothing
// CHECK-NEXT:    %[[A:.*]] = torch.vtensor.literal(dense<-2> : tensor<2x3xsi8>) : !torch.vtensor<[2,3],si8>
// CHECK-NEXT:    %[[B:.*]] = torch_c.to_builtin_tensor %[[A]]
// CHECK-NEXT:    return %[[B]]
func.func @pad_of_nothing(%x : tensor<2x4xi8>) -> tensor<2x3xi8> {
  %f = arith.constant -2 : i8
  %0 = tcp.pad %x, %f lowerExpansion [0, -4] upperExpansion [0, 3] : tensor<2x4xi8>, i8 -> tensor<2x3xi8>
  return %0 : tensor<2x3xi8>
}

// A constant as large as this is no simplification; a fill that is computed is no constant.
// CHECK-LABEL: func.func @pad_of_nothing_stays
// CHECK-COUNT-2: tcp.pad
func.func @pad_of_nothing_stays(%x : tensor<0xf32>, %f : f32) -> (tensor<2000xf32>, tensor<3xf32>) {
  %zero = arith.constant 0.0 : f32
  %0 = tcp.pad %x, %zero lowerExpansion [0] upperExpansion [2000] : tensor<0xf32>, f32 -> tensor<2000xf32>
  %1 = tcp.pad %x, %f lowerExpansion [0] upperExpansion [3] : tensor<0xf32>, f32 -> tensor<3xf32>
  return %0, %1 : tensor<2000xf32>, tensor<3xf32>
}

// CHECK-LABEL: func.func @pad_of_literal
// CHECK:         torch.vtensor.literal(dense<[-1, 1, -1, 2]> : tensor<4xsi64>)
// CHECK:         torch.vtensor.literal(dense<[1, 1, 2]> : tensor<3xsi64>)
// CHECK:         torch.vtensor.literal(dense<[2, 1, 2]> : tensor<3xsi64>)
// CHECK:         torch.vtensor.literal(dense<[2, 1, 2, 1]> : tensor<4xsi64>)
func.func @pad_of_literal() -> (tensor<4xi64>, tensor<3xi64>, tensor<3xi64>, tensor<4xi64>) {
  %f = arith.constant -1 : i64
  %l = torch.vtensor.literal(dense<[1, 2]> : tensor<2xsi64>) : !torch.vtensor<[2],si64>
  %x = torch_c.to_builtin_tensor %l : !torch.vtensor<[2],si64> -> tensor<2xi64>
  %0 = tcp.pad %x, %f lowerExpansion [1] upperExpansion [0] interiorExpansion [1] : tensor<2xi64>, i64 -> tensor<4xi64>
  %1 = tcp.replication_pad %x lowerExpansion [1] upperExpansion [0] : tensor<2xi64> -> tensor<3xi64>
  %2 = tcp.reflection_pad %x lowerExpansion [1] upperExpansion [0] : tensor<2xi64> -> tensor<3xi64>
  %3 = tcp.circular_pad %x lowerExpansion [1] upperExpansion [1] : tensor<2xi64> -> tensor<4xi64>
  return %0, %1, %2, %3 : tensor<4xi64>, tensor<3xi64>, tensor<3xi64>, tensor<4xi64>
}

// CHECK-LABEL: func.func @pad_of_full
// CHECK:         %[[L:.*]] = torch.prim.ListConstruct %n, %{{.*}} :
// CHECK-NEXT:    %[[Z:.*]] = torch.aten.zeros %[[L]], %none, %none, %none, %none : {{.*}} -> !torch.vtensor<[?,7],f32>
// CHECK-NOT:     tcp
// CHECK:         torch.aten.full {{.*}} -> !torch.vtensor<[5],si64>
// CHECK-NOT:     tcp
func.func @pad_of_full(%n : !torch.int) -> (tensor<?x7xf32>, tensor<5xi64>) {
  %none = torch.constant.none
  %two = torch.constant.int 2
  %0 = torch.prim.ListConstruct %n, %two : (!torch.int, !torch.int) -> !torch.list<int>
  %1 = torch.aten.zeros %0, %none, %none, %none, %none : !torch.list<int>, !torch.none, !torch.none, !torch.none, !torch.none -> !torch.vtensor<[?,2],f32>
  %x = torch_c.to_builtin_tensor %1 : !torch.vtensor<[?,2],f32> -> tensor<?x2xf32>
  %f = arith.constant 0.0 : f32
  %2 = tcp.pad %x, %f lowerExpansion [0, 2] upperExpansion [0, 3] : tensor<?x2xf32>, f32 -> tensor<?x7xf32>
  %3 = torch.prim.ListConstruct %two : (!torch.int) -> !torch.list<int>
  %4 = torch.aten.full %3, %two, %none, %none, %none, %none : !torch.list<int>, !torch.int, !torch.none, !torch.none, !torch.none, !torch.none -> !torch.vtensor<[2],si64>
  %y = torch_c.to_builtin_tensor %4 : !torch.vtensor<[2],si64> -> tensor<2xi64>
  %5 = tcp.replication_pad %y lowerExpansion [3] upperExpansion [0] : tensor<2xi64> -> tensor<5xi64>
  return %2, %5 : tensor<?x7xf32>, tensor<5xi64>
}

// CHECK-LABEL: func.func @pad_of_other_full
// CHECK:         tcp.pad
func.func @pad_of_other_full() -> tensor<3xf32> {
  %none = torch.constant.none
  %two = torch.constant.int 2
  %0 = torch.prim.ListConstruct %two : (!torch.int) -> !torch.list<int>
  %1 = torch.aten.zeros %0, %none, %none, %none, %none : !torch.list<int>, !torch.none, !torch.none, !torch.none, !torch.none -> !torch.vtensor<[2],f32>
  %x = torch_c.to_builtin_tensor %1 : !torch.vtensor<[2],f32> -> tensor<2xf32>
  %f = arith.constant -0.0 : f32
  %2 = tcp.pad %x, %f lowerExpansion [1] upperExpansion [0] : tensor<2xf32>, f32 -> tensor<3xf32>
  return %2 : tensor<3xf32>
}

// CHECK-LABEL: func.func @concat_of_pads
// CHECK:         %[[L:.*]] = torch.prim.ListConstruct
// CHECK:         %[[C:.*]] = torch.aten.cat %[[L]], %{{.*}} -> !torch.vtensor<[2,?],f32>
// CHECK-NEXT:    %[[X:.*]] = torch_c.to_builtin_tensor %[[C]]
// CHECK-NEXT:    %[[P:.*]] = tcp.pad %[[X]], %f lowerExpansion [1, 3] upperExpansion [1, 4] : tensor<2x?xf32>, f32 -> tensor<4x?xf32>
// CHECK-NEXT:    torch_c.from_builtin_tensor %[[P]]
// CHECK-NEXT:    return
func.func @concat_of_pads(%x : tensor<2x?xf32>, %y : tensor<2x5xf32>, %f : f32) -> !torch.vtensor<[4,?],f32> {
  %dim = torch.constant.int -1
  %0 = tcp.pad %x, %f lowerExpansion [1, 3] upperExpansion [1, 0] : tensor<2x?xf32>, f32 -> tensor<4x?xf32>
  %1 = tcp.pad %y, %f lowerExpansion [1, 0] upperExpansion [1, 4] : tensor<2x5xf32>, f32 -> tensor<4x9xf32>
  %2 = torch_c.from_builtin_tensor %0 : tensor<4x?xf32> -> !torch.vtensor<[4,?],f32>
  %3 = torch_c.from_builtin_tensor %1 : tensor<4x9xf32> -> !torch.vtensor<[4,9],f32>
  %4 = torch.prim.ListConstruct %2, %3 : (!torch.vtensor<[4,?],f32>, !torch.vtensor<[4,9],f32>) -> !torch.list<vtensor>
  %5 = torch.aten.cat %4, %dim : !torch.list<vtensor>, !torch.int -> !torch.vtensor<[4,?],f32>
  return %5 : !torch.vtensor<[4,?],f32>
}

// The first is padded above, which is between the two.
// CHECK-LABEL: func.func @concat_of_pads_between
// CHECK-COUNT-2: tcp.pad
// CHECK:         torch.aten.cat
func.func @concat_of_pads_between(%x : tensor<2xf32>, %f : f32) -> !torch.vtensor<[6],f32> {
  %dim = torch.constant.int 0
  %0 = tcp.pad %x, %f lowerExpansion [0] upperExpansion [1] : tensor<2xf32>, f32 -> tensor<3xf32>
  %1 = tcp.pad %x, %f lowerExpansion [0] upperExpansion [1] : tensor<2xf32>, f32 -> tensor<3xf32>
  %2 = torch_c.from_builtin_tensor %0 : tensor<3xf32> -> !torch.vtensor<[3],f32>
  %3 = torch_c.from_builtin_tensor %1 : tensor<3xf32> -> !torch.vtensor<[3],f32>
  %4 = torch.prim.ListConstruct %2, %3 : (!torch.vtensor<[3],f32>, !torch.vtensor<[3],f32>) -> !torch.list<vtensor>
  %5 = torch.aten.cat %4, %dim : !torch.list<vtensor>, !torch.int -> !torch.vtensor<[6],f32>
  return %5 : !torch.vtensor<[6],f32>
}

// CHECK-LABEL: func.func @amounts_from_torch
// CHECK-NEXT:    tcp.pad %x, %f lowerExpansion [3] upperExpansion [0]
func.func @amounts_from_torch(%x : tensor<4xf32>, %f : f32) -> tensor<7xf32> {
  %three = torch.constant.int 3
  %i = torch_c.to_i64 %three
  %n = arith.index_cast %i : i64 to index
  %0 = tcp.pad %x, %f lowerExpansion [%n] upperExpansion [0] : tensor<4xf32>, f32 -> tensor<7xf32>
  return %0 : tensor<7xf32>
}

// Pads are pure: one that nothing uses is gone.
// CHECK-LABEL: func.func @unused
// CHECK-NEXT:    return
func.func @unused(%x : tensor<8xf32>) {
  %0 = tcp.circular_pad %x lowerExpansion [2] upperExpansion [0] : tensor<8xf32> -> tensor<10xf32>
  return
}

// The least integer marks a dynamic amount: as an amount it stays a value.
// CHECK-LABEL: func.func @least_amount
// CHECK:         tcp.pad %{{.*}} lowerExpansion [%{{.*}}]
func.func @least_amount(%x : tensor<4xf32>, %zero : f32) -> tensor<?xf32> {
  %c = arith.constant -9223372036854775808 : index
  %y = tcp.pad %x, %zero lowerExpansion [%c] upperExpansion [0] : tensor<4xf32>, f32 -> tensor<?xf32>
  func.return %y : tensor<?xf32>
}

// What pads one dimension only is no obstacle to dynamic amounts in another one.
// CHECK-LABEL: func.func @dynamic_amounts_of_another_dimension
// CHECK-NEXT:    %[[Y:.*]] = tcp.pad %x, %f lowerExpansion [%n, 1] upperExpansion [0, 2] : tensor<3x8xf32>, f32 -> tensor<?x11xf32>
// CHECK-NEXT:    return %[[Y]]
func.func @dynamic_amounts_of_another_dimension(%x : tensor<3x8xf32>, %f : f32, %n : index) -> tensor<?x11xf32> {
  %0 = tcp.pad %x, %f lowerExpansion [0, 1] upperExpansion [0, 2] : tensor<3x8xf32>, f32 -> tensor<3x11xf32>
  %1 = tcp.pad %0, %f lowerExpansion [%n, 0] upperExpansion [0, 0] : tensor<3x11xf32>, f32 -> tensor<?x11xf32>
  return %1 : tensor<?x11xf32>
}

// The data of a weight is not copied.
// CHECK-LABEL: func.func @pad_of_weight
// CHECK:         tcp.pad
func.func @pad_of_weight() -> tensor<4xf32> {
  %z = arith.constant 0.0 : f32
  %w = torch.vtensor.literal(dense_resource<w> : tensor<3xf32>) : !torch.vtensor<[3],f32>
  %x = torch_c.to_builtin_tensor %w : !torch.vtensor<[3],f32> -> tensor<3xf32>
  %y = tcp.pad %x, %z lowerExpansion [0] upperExpansion [1] : tensor<3xf32>, f32 -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// Casts that lose a static size stay.
// CHECK-LABEL: func.func @pad_by_nothing_to_a_static_size
// CHECK-NEXT:    %[[Y:.*]] = tcp.pad %x
// CHECK-NEXT:    return %[[Y]]
func.func @pad_by_nothing_to_a_static_size(%x : tensor<?xf32>, %f : f32) -> tensor<3xf32> {
  %0 = tcp.pad %x, %f lowerExpansion [0] upperExpansion [0] : tensor<?xf32>, f32 -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// A crop shows no fill, so its own may be another.
// CHECK-LABEL: func.func @crop_of_full
// CHECK:         torch.aten.zeros {{.*}} -> !torch.vtensor<[1],f32>
// CHECK-NOT:     tcp.pad
func.func @crop_of_full() -> tensor<1xf32> {
  %none = torch.constant.none
  %two = torch.constant.int 2
  %0 = torch.prim.ListConstruct %two : (!torch.int) -> !torch.list<int>
  %1 = torch.aten.zeros %0, %none, %none, %none, %none : !torch.list<int>, !torch.none, !torch.none, !torch.none, !torch.none -> !torch.vtensor<[2],f32>
  %x = torch_c.to_builtin_tensor %1 : !torch.vtensor<[2],f32> -> tensor<2xf32>
  %f = arith.constant 7.0 : f32
  %2 = tcp.pad %x, %f lowerExpansion [-1] upperExpansion [0] : tensor<2xf32>, f32 -> tensor<1xf32>
  return %2 : tensor<1xf32>
}

// As a boolean, 2 is true.
// CHECK-LABEL: func.func @pad_of_true
// CHECK:         torch.aten.full {{.*}} -> !torch.vtensor<[3],i1>
// CHECK:         tcp.pad
func.func @pad_of_true() -> (tensor<3xi1>, tensor<3xi1>) {
  %none = torch.constant.none
  %two = torch.constant.int 2
  %0 = torch.prim.ListConstruct %two : (!torch.int) -> !torch.list<int>
  %1 = torch.aten.full %0, %two, %none, %none, %none, %none : !torch.list<int>, !torch.int, !torch.none, !torch.none, !torch.none, !torch.none -> !torch.vtensor<[2],i1>
  %x = torch_c.to_builtin_tensor %1 : !torch.vtensor<[2],i1> -> tensor<2xi1>
  %true = arith.constant true
  %false = arith.constant false
  %2 = tcp.pad %x, %true lowerExpansion [1] upperExpansion [0] : tensor<2xi1>, i1 -> tensor<3xi1>
  %3 = tcp.pad %x, %false lowerExpansion [1] upperExpansion [0] : tensor<2xi1>, i1 -> tensor<3xi1>
  return %2, %3 : tensor<3xi1>, tensor<3xi1>
}

// A number that is not 0 or 1 is not either.
// CHECK-LABEL: func.func @pad_of_other_number
// CHECK:         tcp.pad
func.func @pad_of_other_number() -> tensor<3xi64> {
  %none = torch.constant.none
  %two = torch.constant.int 2
  %0 = torch.prim.ListConstruct %two : (!torch.int) -> !torch.list<int>
  %1 = torch.aten.full %0, %two, %none, %none, %none, %none : !torch.list<int>, !torch.int, !torch.none, !torch.none, !torch.none, !torch.none -> !torch.vtensor<[2],si64>
  %x = torch_c.to_builtin_tensor %1 : !torch.vtensor<[2],si64> -> tensor<2xi64>
  %f = arith.constant 1 : i64
  %2 = tcp.pad %x, %f lowerExpansion [1] upperExpansion [0] : tensor<2xi64>, i64 -> tensor<3xi64>
  return %2 : tensor<3xi64>
}

// What fills these is not known, or not by which sizes.
// CHECK-LABEL: func.func @pad_of_unknown_full
// CHECK:         torch.aten.full %{{.*}}, %value
// CHECK:         tcp.pad %{{.*}}, %f
// CHECK:         torch.aten.zeros_like
// CHECK:         tcp.pad
// CHECK:         torch.aten.zeros %sizes
// CHECK:         tcp.pad
// CHECK:         torch.aten.relu
// CHECK:         tcp.pad
// CHECK:         torch.aten.full {{.*}} -> !torch.vtensor<[2],si64>
// CHECK:         tcp.pad
// CHECK:         torch.aten.zeros {{.*}} -> !torch.vtensor<[2],complex<f32>>
// CHECK:         tcp.replication_pad
func.func @pad_of_unknown_full(%value : !torch.float, %f : f32, %like : !torch.vtensor<[2],f32>, %sizes : !torch.list<int>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xi64>, tensor<3xcomplex<f32>>) {
  %none = torch.constant.none
  %two = torch.constant.int 2
  %half = torch.constant.float 2.5
  %z = arith.constant 0.0 : f32
  %i = arith.constant 2 : i64
  %l = torch.prim.ListConstruct %two : (!torch.int) -> !torch.list<int>
  %0 = torch.aten.full %l, %value, %none, %none, %none, %none : !torch.list<int>, !torch.float, !torch.none, !torch.none, !torch.none, !torch.none -> !torch.vtensor<[2],f32>
  %1 = torch_c.to_builtin_tensor %0 : !torch.vtensor<[2],f32> -> tensor<2xf32>
  %2 = tcp.pad %1, %f lowerExpansion [1] upperExpansion [0] : tensor<2xf32>, f32 -> tensor<3xf32>
  %3 = torch.aten.zeros_like %like, %none, %none, %none, %none, %none : !torch.vtensor<[2],f32>, !torch.none, !torch.none, !torch.none, !torch.none, !torch.none -> !torch.vtensor<[2],f32>
  %4 = torch_c.to_builtin_tensor %3 : !torch.vtensor<[2],f32> -> tensor<2xf32>
  %5 = tcp.pad %4, %z lowerExpansion [1] upperExpansion [0] : tensor<2xf32>, f32 -> tensor<3xf32>
  %6 = torch.aten.zeros %sizes, %none, %none, %none, %none : !torch.list<int>, !torch.none, !torch.none, !torch.none, !torch.none -> !torch.vtensor<[2],f32>
  %7 = torch_c.to_builtin_tensor %6 : !torch.vtensor<[2],f32> -> tensor<2xf32>
  %8 = tcp.pad %7, %z lowerExpansion [1] upperExpansion [0] : tensor<2xf32>, f32 -> tensor<3xf32>
  %9 = torch.aten.relu %like : !torch.vtensor<[2],f32> -> !torch.vtensor<[2],f32>
  %10 = torch_c.to_builtin_tensor %9 : !torch.vtensor<[2],f32> -> tensor<2xf32>
  %11 = tcp.pad %10, %z lowerExpansion [1] upperExpansion [0] : tensor<2xf32>, f32 -> tensor<3xf32>
  %12 = torch.aten.full %l, %half, %none, %none, %none, %none : !torch.list<int>, !torch.float, !torch.none, !torch.none, !torch.none, !torch.none -> !torch.vtensor<[2],si64>
  %13 = torch_c.to_builtin_tensor %12 : !torch.vtensor<[2],si64> -> tensor<2xi64>
  %14 = tcp.pad %13, %i lowerExpansion [1] upperExpansion [0] : tensor<2xi64>, i64 -> tensor<3xi64>
  %15 = torch.aten.zeros %l, %none, %none, %none, %none : !torch.list<int>, !torch.none, !torch.none, !torch.none, !torch.none -> !torch.vtensor<[2],complex<f32>>
  %16 = torch_c.to_builtin_tensor %15 : !torch.vtensor<[2],complex<f32>> -> tensor<2xcomplex<f32>>
  %17 = tcp.replication_pad %16 lowerExpansion [1] upperExpansion [0] : tensor<2xcomplex<f32>> -> tensor<3xcomplex<f32>>
  return %2, %5, %8, %11, %14, %17 : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xi64>, tensor<3xcomplex<f32>>
}

// The size that is padded is only known at run time.
// CHECK-LABEL: func.func @pad_of_dynamic_full
// CHECK:         tcp.pad
func.func @pad_of_dynamic_full(%n : !torch.int) -> tensor<?xf32> {
  %none = torch.constant.none
  %0 = torch.prim.ListConstruct %n : (!torch.int) -> !torch.list<int>
  %1 = torch.aten.zeros %0, %none, %none, %none, %none : !torch.list<int>, !torch.none, !torch.none, !torch.none, !torch.none -> !torch.vtensor<[?],f32>
  %x = torch_c.to_builtin_tensor %1 : !torch.vtensor<[?],f32> -> tensor<?xf32>
  %f = arith.constant 0.0 : f32
  %2 = tcp.pad %x, %f lowerExpansion [2] upperExpansion [0] : tensor<?xf32>, f32 -> tensor<?xf32>
  return %2 : tensor<?xf32>
}

// Other fills, other types.
// CHECK-LABEL: func.func @concat_of_unlike_pads
// CHECK-COUNT-2: tcp.pad
// CHECK:         torch.aten.cat
// CHECK-COUNT-2: tcp.pad
// CHECK:         torch.aten.cat
func.func @concat_of_unlike_pads(%x : tensor<2xf32>, %z : tensor<2xf16>, %f : f32, %g : f32, %h : f16) -> (!torch.vtensor<[6],f32>, !torch.vtensor<[6],f32>) {
  %dim = torch.constant.int 0
  %0 = tcp.pad %x, %f lowerExpansion [1] upperExpansion [0] : tensor<2xf32>, f32 -> tensor<3xf32>
  %1 = tcp.pad %x, %g lowerExpansion [0] upperExpansion [1] : tensor<2xf32>, f32 -> tensor<3xf32>
  %2 = torch_c.from_builtin_tensor %0 : tensor<3xf32> -> !torch.vtensor<[3],f32>
  %3 = torch_c.from_builtin_tensor %1 : tensor<3xf32> -> !torch.vtensor<[3],f32>
  %4 = torch.prim.ListConstruct %2, %3 : (!torch.vtensor<[3],f32>, !torch.vtensor<[3],f32>) -> !torch.list<vtensor>
  %5 = torch.aten.cat %4, %dim : !torch.list<vtensor>, !torch.int -> !torch.vtensor<[6],f32>
  %6 = tcp.pad %x, %f lowerExpansion [1] upperExpansion [0] : tensor<2xf32>, f32 -> tensor<3xf32>
  %7 = tcp.pad %z, %h lowerExpansion [0] upperExpansion [1] : tensor<2xf16>, f16 -> tensor<3xf16>
  %8 = torch_c.from_builtin_tensor %6 : tensor<3xf32> -> !torch.vtensor<[3],f32>
  %9 = torch_c.from_builtin_tensor %7 : tensor<3xf16> -> !torch.vtensor<[3],f16>
  %10 = torch.prim.ListConstruct %8, %9 : (!torch.vtensor<[3],f32>, !torch.vtensor<[3],f16>) -> !torch.list<vtensor>
  %11 = torch.aten.cat %10, %dim : !torch.list<vtensor>, !torch.int -> !torch.vtensor<[6],f32>
  return %5, %11 : !torch.vtensor<[6],f32>, !torch.vtensor<[6],f32>
}

// PyTorch takes a tensor of shape (0,) for any empty one.
// CHECK-LABEL: func.func @concat_of_ranks
// CHECK-COUNT-2: tcp.pad
// CHECK:         torch.aten.cat
func.func @concat_of_ranks(%x : tensor<2x3xf32>, %y : tensor<?xf32>, %f : f32) -> !torch.vtensor<[?,4],f32> {
  %dim = torch.constant.int 0
  %0 = tcp.pad %x, %f lowerExpansion [0, 1] upperExpansion [0, 0] : tensor<2x3xf32>, f32 -> tensor<2x4xf32>
  %1 = tcp.pad %y, %f lowerExpansion [-1] upperExpansion [0] : tensor<?xf32>, f32 -> tensor<?xf32>
  %2 = torch_c.from_builtin_tensor %0 : tensor<2x4xf32> -> !torch.vtensor<[2,4],f32>
  %3 = torch_c.from_builtin_tensor %1 : tensor<?xf32> -> !torch.vtensor<[?],f32>
  %4 = torch.prim.ListConstruct %2, %3 : (!torch.vtensor<[2,4],f32>, !torch.vtensor<[?],f32>) -> !torch.list<vtensor>
  %5 = torch.aten.cat %4, %dim : !torch.list<vtensor>, !torch.int -> !torch.vtensor<[?,4],f32>
  return %5 : !torch.vtensor<[?,4],f32>
}

// The second part is not a pad, is a pad of another mode, has other users.
// CHECK-LABEL: func.func @concat_of_others
// CHECK:         tcp.pad
// CHECK:         torch.aten.cat
// CHECK:         tcp.pad
// CHECK:         tcp.circular_pad
// CHECK:         torch.aten.cat
// CHECK-COUNT-2: tcp.pad
// CHECK:         torch.aten.cat
func.func @concat_of_others(%x : tensor<2xf32>, %y : !torch.vtensor<[3],f32>, %f : f32) -> (!torch.vtensor<[6],f32>, !torch.vtensor<[6],f32>, !torch.vtensor<[6],f32>, tensor<3xf32>) {
  %dim = torch.constant.int 0
  %0 = tcp.pad %x, %f lowerExpansion [1] upperExpansion [0] : tensor<2xf32>, f32 -> tensor<3xf32>
  %1 = torch_c.from_builtin_tensor %0 : tensor<3xf32> -> !torch.vtensor<[3],f32>
  %2 = torch.prim.ListConstruct %1, %y : (!torch.vtensor<[3],f32>, !torch.vtensor<[3],f32>) -> !torch.list<vtensor>
  %3 = torch.aten.cat %2, %dim : !torch.list<vtensor>, !torch.int -> !torch.vtensor<[6],f32>
  %4 = tcp.pad %x, %f lowerExpansion [1] upperExpansion [0] : tensor<2xf32>, f32 -> tensor<3xf32>
  %5 = torch_c.from_builtin_tensor %4 : tensor<3xf32> -> !torch.vtensor<[3],f32>
  %6 = tcp.circular_pad %x lowerExpansion [0] upperExpansion [1] : tensor<2xf32> -> tensor<3xf32>
  %7 = torch_c.from_builtin_tensor %6 : tensor<3xf32> -> !torch.vtensor<[3],f32>
  %8 = torch.prim.ListConstruct %5, %7 : (!torch.vtensor<[3],f32>, !torch.vtensor<[3],f32>) -> !torch.list<vtensor>
  %9 = torch.aten.cat %8, %dim : !torch.list<vtensor>, !torch.int -> !torch.vtensor<[6],f32>
  %10 = tcp.pad %x, %f lowerExpansion [1] upperExpansion [0] : tensor<2xf32>, f32 -> tensor<3xf32>
  %11 = torch_c.from_builtin_tensor %10 : tensor<3xf32> -> !torch.vtensor<[3],f32>
  %12 = tcp.pad %x, %f lowerExpansion [0] upperExpansion [1] : tensor<2xf32>, f32 -> tensor<3xf32>
  %13 = torch_c.from_builtin_tensor %12 : tensor<3xf32> -> !torch.vtensor<[3],f32>
  %14 = torch.prim.ListConstruct %11, %13 : (!torch.vtensor<[3],f32>, !torch.vtensor<[3],f32>) -> !torch.list<vtensor>
  %15 = torch.aten.cat %14, %dim : !torch.list<vtensor>, !torch.int -> !torch.vtensor<[6],f32>
  return %3, %9, %15, %12 : !torch.vtensor<[6],f32>, !torch.vtensor<[6],f32>, !torch.vtensor<[6],f32>, tensor<3xf32>
}

// The amounts along the dimension are dynamic, in the first part, in the second, in the
// only one; and those of another dimension differ.
// CHECK-LABEL: func.func @concat_of_other_amounts
// CHECK-COUNT-2: tcp.pad
// CHECK:         torch.aten.cat
// CHECK-COUNT-2: tcp.pad
// CHECK:         torch.aten.cat
// CHECK:         tcp.pad
// CHECK:         torch.aten.cat
// CHECK-COUNT-2: tcp.pad
// CHECK:         torch.aten.cat
func.func @concat_of_other_amounts(%x : tensor<2x3xf32>, %f : f32, %n : index) -> (!torch.vtensor<[?,3],f32>, !torch.vtensor<[?,3],f32>, !torch.vtensor<[?,3],f32>, !torch.vtensor<[4,5],f32>) {
  %dim = torch.constant.int 0
  %0 = tcp.pad %x, %f lowerExpansion [%n, 0] upperExpansion [0, 0] : tensor<2x3xf32>, f32 -> tensor<?x3xf32>
  %1 = torch_c.from_builtin_tensor %0 : tensor<?x3xf32> -> !torch.vtensor<[?,3],f32>
  %2 = tcp.pad %x, %f lowerExpansion [0, 0] upperExpansion [1, 0] : tensor<2x3xf32>, f32 -> tensor<3x3xf32>
  %3 = torch_c.from_builtin_tensor %2 : tensor<3x3xf32> -> !torch.vtensor<[3,3],f32>
  %4 = torch.prim.ListConstruct %1, %3 : (!torch.vtensor<[?,3],f32>, !torch.vtensor<[3,3],f32>) -> !torch.list<vtensor>
  %5 = torch.aten.cat %4, %dim : !torch.list<vtensor>, !torch.int -> !torch.vtensor<[?,3],f32>
  %6 = tcp.pad %x, %f lowerExpansion [1, 0] upperExpansion [0, 0] : tensor<2x3xf32>, f32 -> tensor<3x3xf32>
  %7 = torch_c.from_builtin_tensor %6 : tensor<3x3xf32> -> !torch.vtensor<[3,3],f32>
  %8 = tcp.pad %x, %f lowerExpansion [0, 0] upperExpansion [%n, 0] : tensor<2x3xf32>, f32 -> tensor<?x3xf32>
  %9 = torch_c.from_builtin_tensor %8 : tensor<?x3xf32> -> !torch.vtensor<[?,3],f32>
  %10 = torch.prim.ListConstruct %7, %9 : (!torch.vtensor<[3,3],f32>, !torch.vtensor<[?,3],f32>) -> !torch.list<vtensor>
  %11 = torch.aten.cat %10, %dim : !torch.list<vtensor>, !torch.int -> !torch.vtensor<[?,3],f32>
  %12 = tcp.pad %x, %f lowerExpansion [%n, 0] upperExpansion [0, 0] : tensor<2x3xf32>, f32 -> tensor<?x3xf32>
  %13 = torch_c.from_builtin_tensor %12 : tensor<?x3xf32> -> !torch.vtensor<[?,3],f32>
  %14 = torch.prim.ListConstruct %13 : (!torch.vtensor<[?,3],f32>) -> !torch.list<vtensor>
  %15 = torch.aten.cat %14, %dim : !torch.list<vtensor>, !torch.int -> !torch.vtensor<[?,3],f32>
  %16 = tcp.pad %x, %f lowerExpansion [0, 1] upperExpansion [0, 1] : tensor<2x3xf32>, f32 -> tensor<2x5xf32>
  %17 = torch_c.from_builtin_tensor %16 : tensor<2x5xf32> -> !torch.vtensor<[2,5],f32>
  %18 = tcp.pad %x, %f lowerExpansion [0, 2] upperExpansion [0, 0] : tensor<2x3xf32>, f32 -> tensor<2x5xf32>
  %19 = torch_c.from_builtin_tensor %18 : tensor<2x5xf32> -> !torch.vtensor<[2,5],f32>
  %20 = torch.prim.ListConstruct %17, %19 : (!torch.vtensor<[2,5],f32>, !torch.vtensor<[2,5],f32>) -> !torch.list<vtensor>
  %21 = torch.aten.cat %20, %dim : !torch.list<vtensor>, !torch.int -> !torch.vtensor<[4,5],f32>
  return %5, %11, %15, %21 : !torch.vtensor<[?,3],f32>, !torch.vtensor<[?,3],f32>, !torch.vtensor<[?,3],f32>, !torch.vtensor<[4,5],f32>
}

// The dimension is computed; the list has another user; the sizes are wrong.
// CHECK-LABEL: func.func @concat_that_stays
// CHECK:         tcp.pad
// CHECK:         torch.aten.cat
// CHECK:         tcp.pad
// CHECK:         torch.aten.stack
// CHECK:         tcp.pad
// CHECK:         torch.aten.cat
func.func @concat_that_stays(%x : tensor<2xf32>, %f : f32, %dim : !torch.int) -> (!torch.vtensor<[3],f32>, !torch.vtensor<[1,3],f32>, !torch.vtensor<[4],f32>) {
  %zero = torch.constant.int 0
  %0 = tcp.pad %x, %f lowerExpansion [1] upperExpansion [0] : tensor<2xf32>, f32 -> tensor<3xf32>
  %1 = torch_c.from_builtin_tensor %0 : tensor<3xf32> -> !torch.vtensor<[3],f32>
  %2 = torch.prim.ListConstruct %1 : (!torch.vtensor<[3],f32>) -> !torch.list<vtensor>
  %3 = torch.aten.cat %2, %dim : !torch.list<vtensor>, !torch.int -> !torch.vtensor<[3],f32>
  %4 = tcp.pad %x, %f lowerExpansion [1] upperExpansion [0] : tensor<2xf32>, f32 -> tensor<3xf32>
  %5 = torch_c.from_builtin_tensor %4 : tensor<3xf32> -> !torch.vtensor<[3],f32>
  %6 = torch.prim.ListConstruct %5 : (!torch.vtensor<[3],f32>) -> !torch.list<vtensor>
  %7 = torch.aten.stack %6, %zero : !torch.list<vtensor>, !torch.int -> !torch.vtensor<[1,3],f32>
  %8 = tcp.pad %x, %f lowerExpansion [1] upperExpansion [0] : tensor<2xf32>, f32 -> tensor<3xf32>
  %9 = torch_c.from_builtin_tensor %8 : tensor<3xf32> -> !torch.vtensor<[3],f32>
  %10 = torch.prim.ListConstruct %9 : (!torch.vtensor<[3],f32>) -> !torch.list<vtensor>
  %11 = torch.aten.cat %10, %zero : !torch.list<vtensor>, !torch.int -> !torch.vtensor<[4],f32>
  return %3, %7, %11 : !torch.vtensor<[3],f32>, !torch.vtensor<[1,3],f32>, !torch.vtensor<[4],f32>
}

// The users have the dynamic type.
// CHECK-LABEL: func.func @dynamic_interior_of_one_element
// CHECK:         tcp.pad %x, %f {{.*}} interiorExpansion [%n]
func.func @dynamic_interior_of_one_element(%x : tensor<1xf32>, %f : f32, %n : index) -> tensor<?xf32> {
  %0 = tcp.pad %x, %f lowerExpansion [0] upperExpansion [0] interiorExpansion [%n] : tensor<1xf32>, f32 -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// Amounts that are computed; a large result; a fill that is computed.
// CHECK-LABEL: func.func @pad_of_literal_stays
// CHECK-COUNT-3: tcp.pad
func.func @pad_of_literal_stays(%n : index, %g : i64) -> (tensor<3xi64>, tensor<2002xi64>, tensor<3xi64>) {
  %f = arith.constant -1 : i64
  %l = torch.vtensor.literal(dense<[1, 2]> : tensor<2xsi64>) : !torch.vtensor<[2],si64>
  %x = torch_c.to_builtin_tensor %l : !torch.vtensor<[2],si64> -> tensor<2xi64>
  %0 = tcp.pad %x, %f lowerExpansion [%n] upperExpansion [0] : tensor<2xi64>, i64 -> tensor<3xi64>
  %1 = tcp.pad %x, %f lowerExpansion [2000] upperExpansion [0] : tensor<2xi64>, i64 -> tensor<2002xi64>
  %2 = tcp.pad %x, %g lowerExpansion [1] upperExpansion [0] : tensor<2xi64>, i64 -> tensor<3xi64>
  return %0, %1, %2 : tensor<3xi64>, tensor<2002xi64>, tensor<3xi64>
}

// CHECK-LABEL: func.func @pad_of_argument
// CHECK:         tcp.pad
func.func @pad_of_argument(%t : !torch.vtensor<[2],f32>) -> tensor<3xf32> {
  %f = arith.constant 0.0 : f32
  %x = torch_c.to_builtin_tensor %t : !torch.vtensor<[2],f32> -> tensor<2xf32>
  %0 = tcp.pad %x, %f lowerExpansion [1] upperExpansion [0] : tensor<2xf32>, f32 -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// Bytes with and without a sign; padding between parts of unknown sizes; another op.
// CHECK-LABEL: func.func @concat_of_bytes
// CHECK-COUNT-2: tcp.pad
// CHECK:         torch.aten.cat
// CHECK-COUNT-2: tcp.pad
// CHECK:         torch.aten.cat
// CHECK:         tcp.pad
// CHECK:         aten.hstack
func.func @concat_of_bytes(%x : tensor<2xi8>, %z : tensor<2xui8>, %y : tensor<?xi8>, %f : i8) -> (!torch.vtensor<[6],si8>, !torch.vtensor<[?],si8>, !torch.vtensor<[?],si8>) {
  %dim = torch.constant.int 0
  %0 = tcp.pad %x, %f lowerExpansion [1] upperExpansion [0] : tensor<2xi8>, i8 -> tensor<3xi8>
  %1 = tcp.pad %z, %f lowerExpansion [0] upperExpansion [1] : tensor<2xui8>, i8 -> tensor<3xui8>
  %2 = torch_c.from_builtin_tensor %0 : tensor<3xi8> -> !torch.vtensor<[3],si8>
  %3 = torch_c.from_builtin_tensor %1 : tensor<3xui8> -> !torch.vtensor<[3],ui8>
  %4 = torch.prim.ListConstruct %2, %3 : (!torch.vtensor<[3],si8>, !torch.vtensor<[3],ui8>) -> !torch.list<vtensor>
  %5 = torch.aten.cat %4, %dim : !torch.list<vtensor>, !torch.int -> !torch.vtensor<[6],si8>
  %6 = tcp.pad %y, %f lowerExpansion [0] upperExpansion [1] : tensor<?xi8>, i8 -> tensor<?xi8>
  %7 = tcp.pad %y, %f lowerExpansion [0] upperExpansion [1] : tensor<?xi8>, i8 -> tensor<?xi8>
  %8 = torch_c.from_builtin_tensor %6 : tensor<?xi8> -> !torch.vtensor<[?],si8>
  %9 = torch_c.from_builtin_tensor %7 : tensor<?xi8> -> !torch.vtensor<[?],si8>
  %10 = torch.prim.ListConstruct %8, %9 : (!torch.vtensor<[?],si8>, !torch.vtensor<[?],si8>) -> !torch.list<vtensor>
  %11 = torch.aten.cat %10, %dim : !torch.list<vtensor>, !torch.int -> !torch.vtensor<[?],si8>
  %12 = tcp.pad %y, %f lowerExpansion [0] upperExpansion [1] : tensor<?xi8>, i8 -> tensor<?xi8>
  %13 = torch_c.from_builtin_tensor %12 : tensor<?xi8> -> !torch.vtensor<[?],si8>
  %14 = torch.prim.ListConstruct %13 : (!torch.vtensor<[?],si8>) -> !torch.list<vtensor>
  %15 = torch.operator "torch.aten.hstack"(%14) : (!torch.list<vtensor>) -> !torch.vtensor<[?],si8>
  return %5, %11, %15 : !torch.vtensor<[6],si8>, !torch.vtensor<[?],si8>, !torch.vtensor<[?],si8>
}

// One side after the other, as of reflections; the same side twice is mirrored twice.
// CHECK-LABEL: func.func @symmetric_pads
// CHECK-NEXT:    %[[A:.*]] = tcp.symmetric_pad %x lowerExpansion [2] upperExpansion [2] : tensor<?xf32> -> tensor<?xf32>
// CHECK-NEXT:    tcp.symmetric_pad %x
// CHECK-NEXT:    tcp.symmetric_pad
// CHECK-NEXT:    return %[[A]]
func.func @symmetric_pads(%x : tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
  %0 = tcp.symmetric_pad %x lowerExpansion [2] upperExpansion [0] : tensor<?xf32> -> tensor<?xf32>
  %1 = tcp.symmetric_pad %0 lowerExpansion [0] upperExpansion [2] : tensor<?xf32> -> tensor<?xf32>
  %2 = tcp.symmetric_pad %x lowerExpansion [2] upperExpansion [0] : tensor<?xf32> -> tensor<?xf32>
  %3 = tcp.symmetric_pad %2 lowerExpansion [2] upperExpansion [0] : tensor<?xf32> -> tensor<?xf32>
  return %1, %3 : tensor<?xf32>, tensor<?xf32>
}

// CHECK-LABEL: func.func @interior_of_dynamic_result
// CHECK:         tcp.pad %x, %f {{.*}} interiorExpansion [2]
func.func @interior_of_dynamic_result(%x : tensor<2xf32>, %f : f32, %n : index) -> tensor<?xf32> {
  %0 = tcp.pad %x, %f lowerExpansion [%n] upperExpansion [0] interiorExpansion [2] : tensor<2xf32>, f32 -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// A window of 640 sees 20 elements, and all of a mean's are counted.
// CHECK-LABEL: func.func @window_larger_than_input
// CHECK-NEXT:    %[[Y:.*]] = tcp.avg_pool %x kernel [20] strides [640] dilations [1] dims [1] : tensor<2x20xf32> -> tensor<2x1xf32>
// CHECK-NEXT:    return %[[Y]]
func.func @window_larger_than_input(%x : tensor<2x20xf32>) -> tensor<2x1xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tcp.pad %x, %zero lowerExpansion [0, 0] upperExpansion [0, 639] : tensor<2x20xf32>, f32 -> tensor<2x659xf32>
  %1 = tcp.avg_pool %0 kernel [640] strides [640] dilations [1] dims [1] uncountedUpper [639] : tensor<2x659xf32> -> tensor<2x1xf32>
  return %1 : tensor<2x1xf32>
}

// Padding that counts is part of the divisor. The first of the windows reaches 10 elements to the left of the last.
// CHECK-LABEL: func.func @windows_that_count_padding
// CHECK-NEXT:    %[[F:.*]] = arith.constant
// CHECK-NEXT:    %[[X:.*]] = tcp.pad %x, %[[F]] lowerExpansion [10] upperExpansion [10] : tensor<5xf32>, f32 -> tensor<25xf32>
// CHECK-NEXT:    %[[Y:.*]] = tcp.avg_pool %[[X]] kernel [15] strides [1] dilations [1] dims [0] divisor 100 : tensor<25xf32> -> tensor<11xf32>
// CHECK-NEXT:    return %[[Y]]
func.func @windows_that_count_padding(%x : tensor<5xf32>) -> tensor<11xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tcp.pad %x, %zero lowerExpansion [50] upperExpansion [55] : tensor<5xf32>, f32 -> tensor<110xf32>
  %1 = tcp.avg_pool %0 kernel [100] strides [1] dilations [1] dims [0] : tensor<110xf32> -> tensor<11xf32>
  return %1 : tensor<11xf32>
}

// Zeros are not the least numbers.
// CHECK-LABEL: func.func @window_on_other_fill
// CHECK:         tcp.max_pool %{{.*}} kernel [640]
func.func @window_on_other_fill(%x : tensor<20xf32>) -> tensor<1xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tcp.pad %x, %zero lowerExpansion [0] upperExpansion [639] : tensor<20xf32>, f32 -> tensor<659xf32>
  %1 = tcp.max_pool %0 kernel [640] strides [640] dilations [1] dims [0] : tensor<659xf32> -> tensor<1xf32>
  return %1 : tensor<1xf32>
}

// Results of a known size do not tell the size of the input or the amounts.
// CHECK-LABEL: func.func @windows_on_dynamic_pads
// CHECK:         tcp.pad %x, %{{.*}} lowerExpansion [%n] upperExpansion [639]
// CHECK:         tcp.max_pool %{{.*}} kernel [640]
// CHECK:         tcp.pad %x, %{{.*}} lowerExpansion [0] upperExpansion [%n]
// CHECK:         tcp.max_pool %{{.*}} kernel [640]
// CHECK:         tcp.pad %y, %{{.*}} lowerExpansion [0] upperExpansion [639]
// CHECK:         tcp.max_pool %{{.*}} kernel [640]
// CHECK:         tcp.pad %x, %{{.*}} lowerExpansion [0] upperExpansion [0] interiorExpansion [40]
// CHECK:         tcp.max_pool %{{.*}} kernel [640]
func.func @windows_on_dynamic_pads(%x : tensor<20xf32>, %y : tensor<?xf32>, %n : index) -> (tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<?xf32>, tensor<4xf32>) {
  %least = arith.constant 0xFF800000 : f32
  %0 = tcp.pad %x, %least lowerExpansion [%n] upperExpansion [639] : tensor<20xf32>, f32 -> tensor<?xf32>
  %1 = tcp.max_pool %0 kernel [640] strides [640] dilations [1] dims [0] : tensor<?xf32> -> tensor<1xf32>
  %2 = tcp.pad %x, %least lowerExpansion [0] upperExpansion [%n] : tensor<20xf32>, f32 -> tensor<?xf32>
  %3 = tcp.max_pool %2 kernel [640] strides [640] dilations [1] dims [0] : tensor<?xf32> -> tensor<1xf32>
  %4 = tcp.pad %y, %least lowerExpansion [0] upperExpansion [639] : tensor<?xf32>, f32 -> tensor<?xf32>
  %5 = tcp.max_pool %4 kernel [640] strides [640] dilations [1] dims [0] : tensor<?xf32> -> tensor<1xf32>
  %6 = tcp.max_pool %4 kernel [640] strides [640] dilations [1] dims [0] : tensor<?xf32> -> tensor<?xf32>
  %7 = tcp.pad %x, %least lowerExpansion [0] upperExpansion [0] interiorExpansion [40] : tensor<20xf32>, f32 -> tensor<780xf32>
  %8 = tcp.max_pool %7 kernel [640] strides [40] dilations [1] dims [0] : tensor<780xf32> -> tensor<4xf32>
  return %1, %3, %5, %6, %8 : tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<?xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @means_of_a_dynamic_input
// CHECK:         tcp.avg_pool %{{.*}} kernel [640]
func.func @means_of_a_dynamic_input(%x : tensor<?xf32>) -> tensor<1xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tcp.pad %x, %zero lowerExpansion [0] upperExpansion [639] : tensor<?xf32>, f32 -> tensor<?xf32>
  %1 = tcp.avg_pool %0 kernel [640] strides [640] dilations [1] dims [0] uncountedUpper [639] : tensor<?xf32> -> tensor<1xf32>
  return %1 : tensor<1xf32>
}

// Where the windows count different numbers of elements, they keep what counts.
// CHECK-LABEL: func.func @windows_that_count_some_padding
// CHECK:         tcp.avg_pool %{{.*}} kernel [100] {{.*}} uncountedUpper [5]
func.func @windows_that_count_some_padding(%x : tensor<5xf32>) -> tensor<11xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tcp.pad %x, %zero lowerExpansion [50] upperExpansion [55] : tensor<5xf32>, f32 -> tensor<110xf32>
  %1 = tcp.avg_pool %0 kernel [100] strides [1] dilations [1] dims [0] uncountedUpper [5] : tensor<110xf32> -> tensor<11xf32>
  return %1 : tensor<11xf32>
}

// CHECK-LABEL: func.func @largest_of_a_larger_window
// CHECK:         tcp.max_pool %x kernel [20]
func.func @largest_of_a_larger_window(%x : tensor<20xf32>) -> tensor<1xf32> {
  %least = arith.constant 0xFF800000 : f32
  %0 = tcp.pad %x, %least lowerExpansion [0] upperExpansion [639] : tensor<20xf32>, f32 -> tensor<659xf32>
  %1 = tcp.max_pool %0 kernel [640] strides [640] dilations [1] dims [0] : tensor<659xf32> -> tensor<1xf32>
  return %1 : tensor<1xf32>
}

// All taps meet an element in some window; that no window reaches the last fills does not matter.
// CHECK-LABEL: func.func @fills_after_the_last_window
// CHECK:         tcp.pad %x, %{{.*}} lowerExpansion [0] upperExpansion [25]
// CHECK:         tcp.max_pool %{{.*}} kernel [10]
func.func @fills_after_the_last_window(%x : tensor<20xf32>) -> tensor<4xf32> {
  %least = arith.constant 0xFF800000 : f32
  %0 = tcp.pad %x, %least lowerExpansion [0] upperExpansion [25] : tensor<20xf32>, f32 -> tensor<45xf32>
  %1 = tcp.max_pool %0 kernel [10] strides [10] dilations [1] dims [0] : tensor<45xf32> -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @window_on_unknown_fill
// CHECK:         tcp.max_pool %{{.*}} kernel [640]
func.func @window_on_unknown_fill(%x : tensor<20xf32>, %f : f32) -> tensor<1xf32> {
  %0 = tcp.pad %x, %f lowerExpansion [0] upperExpansion [639] : tensor<20xf32>, f32 -> tensor<659xf32>
  %1 = tcp.max_pool %0 kernel [640] strides [640] dilations [1] dims [0] : tensor<659xf32> -> tensor<1xf32>
  return %1 : tensor<1xf32>
}

// CHECK-LABEL: func.func @place_of_the_largest
// CHECK:         tcp.arg_max_pool %x kernel [20]
func.func @place_of_the_largest(%x : tensor<20xf32>) -> tensor<1xi64> {
  %least = arith.constant 0xFF800000 : f32
  %0 = tcp.pad %x, %least lowerExpansion [0] upperExpansion [639] : tensor<20xf32>, f32 -> tensor<659xf32>
  %1 = tcp.arg_max_pool %0 kernel [640] strides [640] dilations [1] dims [0] uncountedUpper [639] : tensor<659xf32> -> tensor<1xi64>
  return %1 : tensor<1xi64>
}

// CHECK-LABEL: func.func @sum_of_a_larger_window
// CHECK:         tcp.avg_pool %x kernel [20] {{.*}} divisor 7
func.func @sum_of_a_larger_window(%x : tensor<20xf32>) -> tensor<1xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tcp.pad %x, %zero lowerExpansion [0] upperExpansion [639] : tensor<20xf32>, f32 -> tensor<659xf32>
  %1 = tcp.avg_pool %0 kernel [640] strides [640] dilations [1] dims [0] divisor 7 : tensor<659xf32> -> tensor<1xf32>
  return %1 : tensor<1xf32>
}

// CHECK-LABEL: func.func @windows_far_from_what_counts
// CHECK:         tcp.pad %x, %{{.*}} lowerExpansion [15] upperExpansion [55]
// CHECK:         tcp.avg_pool %{{.*}} kernel [65] strides [1] dilations [1] dims [0] uncountedLower [10] uncountedUpper [5]
func.func @windows_far_from_what_counts(%x : tensor<5xf32>) -> tensor<11xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tcp.pad %x, %zero lowerExpansion [50] upperExpansion [55] : tensor<5xf32>, f32 -> tensor<110xf32>
  %1 = tcp.avg_pool %0 kernel [100] strides [1] dilations [1] dims [0] uncountedLower [45] uncountedUpper [5] : tensor<110xf32> -> tensor<11xf32>
  return %1 : tensor<11xf32>
}
