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
func.func @interior_is_something(%x : tensor<1xf32>, %f : f32) -> tensor<1xf32> {
  %0 = tcp.pad %x, %f lowerExpansion [0] upperExpansion [0] interiorExpansion [2] : tensor<1xf32>, f32 -> tensor<1xf32>
  return %0 : tensor<1xf32>
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

// Two pads that undo one another are none.
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

// Elements that were spread, or added, have no one step between them.
// CHECK-LABEL: func.func @interior_of_interior
// CHECK-COUNT-4: tcp.pad
func.func @interior_of_interior(%x : tensor<4xf32>, %f : f32) -> (tensor<13xf32>, tensor<9xf32>) {
  %0 = tcp.pad %x, %f lowerExpansion [0] upperExpansion [0] interiorExpansion [1] : tensor<4xf32>, f32 -> tensor<7xf32>
  %1 = tcp.pad %0, %f lowerExpansion [0] upperExpansion [0] interiorExpansion [1] : tensor<7xf32>, f32 -> tensor<13xf32>
  %2 = tcp.pad %x, %f lowerExpansion [1] upperExpansion [0] : tensor<4xf32>, f32 -> tensor<5xf32>
  %3 = tcp.pad %2, %f lowerExpansion [0] upperExpansion [0] interiorExpansion [1] : tensor<5xf32>, f32 -> tensor<9xf32>
  return %1, %3 : tensor<13xf32>, tensor<9xf32>
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
// CHECK-COUNT-2: tcp.replication_pad
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
