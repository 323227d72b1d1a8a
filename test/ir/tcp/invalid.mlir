// RUN: padc-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: 'tcp.pad' has 1 amounts in lowerExpansion, expected one for each of the 2 dimensions of tensor<3x8xf32>
%x, %f = "test.op"() : () -> (tensor<3x8xf32>, f32)
%y = tcp.pad %x, %f lowerExpansion [1] upperExpansion [0, 0] : tensor<3x8xf32>, f32 -> tensor<4x8xf32>

// -----

// CHECK: 'tcp.reflection_pad' has 3 amounts in upperExpansion, expected one for each of the 2 dimensions of tensor<3x8xf32>
%x = "test.op"() : () -> tensor<3x8xf32>
%y = tcp.reflection_pad %x lowerExpansion [1, 0] upperExpansion [0, 0, 0] : tensor<3x8xf32> -> tensor<4x8xf32>

// -----

// CHECK: 'tcp.pad' has 1 amounts in interiorExpansion, expected one for each of the 2 dimensions of tensor<3x8xf32>
%x, %f = "test.op"() : () -> (tensor<3x8xf32>, f32)
%y = tcp.pad %x, %f lowerExpansion [1, 0] upperExpansion [0, 0] interiorExpansion [1] : tensor<3x8xf32>, f32 -> tensor<6x8xf32>

// -----

// A marker for a dynamic amount, and no amount.
// CHECK: The number of dynamic positions passed as values (0) does not match the number of dynamic position markers (1) in lowerExpansion.
%x, %f = "test.op"() : () -> (tensor<3xf32>, f32)
%y = "tcp.pad"(%x, %f) <{lowerExpansion = array<i64: -9223372036854775808>, upperExpansion = array<i64: 0>, interiorExpansion = array<i64>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>}> : (tensor<3xf32>, f32) -> tensor<?xf32>

// -----

// CHECK: 'tcp.pad' cannot remove elements between elements: interiorExpansion -1; expected 0 or more
%x, %f = "test.op"() : () -> (tensor<8xf32>, f32)
%y = tcp.pad %x, %f lowerExpansion [0] upperExpansion [0] interiorExpansion [-1] : tensor<8xf32>, f32 -> tensor<1xf32>

// -----

// CHECK: 'tcp.pad' fills tensor<8xf32> with f64; expected a scalar of type f32
%x, %f = "test.op"() : () -> (tensor<8xf32>, f64)
%y = tcp.pad %x, %f lowerExpansion [1] upperExpansion [0] : tensor<8xf32>, f64 -> tensor<9xf32>

// -----

// CHECK: 'tcp.pad' fills tensor<8xui8> with ui8; expected a scalar of type i8
%x, %f = "test.op"() : () -> (tensor<8xui8>, ui8)
%y = tcp.pad %x, %f lowerExpansion [1] upperExpansion [0] : tensor<8xui8>, ui8 -> tensor<9xui8>

// -----

// What one side crops is not made up for by the other.
// CHECK: 'tcp.pad' of tensor<4xf32>, dimension 0: padding by -5 and 6 crops more than the 4 elements there are
%x, %f = "test.op"() : () -> (tensor<4xf32>, f32)
%y = tcp.pad %x, %f lowerExpansion [-5] upperExpansion [6] : tensor<4xf32>, f32 -> tensor<5xf32>

// -----

// CHECK: 'tcp.pad' of tensor<2xf32>, dimension 0: padding by -6 and 0 crops more than the 5 elements there are
%x, %f = "test.op"() : () -> (tensor<2xf32>, f32)
%y = tcp.pad %x, %f lowerExpansion [-6] upperExpansion [0] interiorExpansion [3] : tensor<2xf32>, f32 -> tensor<0xf32>

// -----

// CHECK: 'tcp.pad' makes tensor<9xf32>, but tensor<10xf32> is given
%x, %f = "test.op"() : () -> (tensor<8xf32>, f32)
%y = tcp.pad %x, %f lowerExpansion [1] upperExpansion [0] : tensor<8xf32>, f32 -> tensor<10xf32>

// -----

// A size that can be computed must be.
// CHECK: 'tcp.pad' makes tensor<9xf32>, but tensor<?xf32> is given
%x, %f = "test.op"() : () -> (tensor<8xf32>, f32)
%y = tcp.pad %x, %f lowerExpansion [1] upperExpansion [0] : tensor<8xf32>, f32 -> tensor<?xf32>

// -----

// CHECK: 'tcp.circular_pad' makes tensor<9xf32>, but tensor<9xf16> is given
%x = "test.op"() : () -> tensor<8xf32>
%y = tcp.circular_pad %x lowerExpansion [1] upperExpansion [0] : tensor<8xf32> -> tensor<9xf16>

// -----

// CHECK: 'tcp.replication_pad' makes tensor<9xf32>, but tensor<1x9xf32> is given
%x = "test.op"() : () -> tensor<8xf32>
%y = tcp.replication_pad %x lowerExpansion [1] upperExpansion [0] : tensor<8xf32> -> tensor<1x9xf32>

// -----

// CHECK: 'tcp.symmetric_pad' of tensor<2x8xf32>, dimension 1: symmetric padding by 8 and 9 of a dimension of size 8: each may be at most 8, the size
%x = "test.op"() : () -> tensor<2x8xf32>
%y = tcp.symmetric_pad %x lowerExpansion [0, 8] upperExpansion [0, 9] : tensor<2x8xf32> -> tensor<2x25xf32>

// -----

// CHECK: 'tcp.reflection_pad' of tensor<2x8xf32>, dimension 1: reflection padding by 8 and 0 of a dimension of size 8: each may be at most 7, the size less one
%x = "test.op"() : () -> tensor<2x8xf32>
%y = tcp.reflection_pad %x lowerExpansion [0, 8] upperExpansion [0, 0] : tensor<2x8xf32> -> tensor<2x16xf32>

// -----

// CHECK: 'tcp.replication_pad' of tensor<0xf32>, dimension 0: replication padding of an empty dimension
%x = "test.op"() : () -> tensor<0xf32>
%y = tcp.replication_pad %x lowerExpansion [1] upperExpansion [0] : tensor<0xf32> -> tensor<1xf32>

// -----

// CHECK: 'tcp.replication_pad' of tensor<3xf32>, dimension 0: replication padding by -2 and -2 crops more than a dimension of size 3
%x = "test.op"() : () -> tensor<3xf32>
%y = tcp.replication_pad %x lowerExpansion [-2] upperExpansion [-2] : tensor<3xf32> -> tensor<0xf32>

// -----

// CHECK: 'tcp.circular_pad' of tensor<4xf32>, dimension 0: circular padding by -2 and 3 of a dimension of size 4: each may be at most 2, what cropping leaves of it
%x = "test.op"() : () -> tensor<4xf32>
%y = tcp.circular_pad %x lowerExpansion [-2] upperExpansion [3] : tensor<4xf32> -> tensor<5xf32>

// -----

// CHECK: dimension roles of the kernel are ['o', 'i', 0]; expected each of ['0', '1', 'i', 'o'] once
"test.op"() {dims = #tcp.conv_dims<[b, f, 0, 1] x [o, i, 0] -> [b, f, 0, 1]>} : () -> ()

// -----

// CHECK: dimension roles of the input are ['b', 'f', 0, 2]; expected each of ['0', '1', 'f'] once and at most one b
"test.op"() {dims = #tcp.conv_dims<[b, f, 0, 2] x [o, i, 0, 1] -> [b, f, 0, 1]>} : () -> ()

// -----

// CHECK: dimension roles of the result are ['b', 'f', 'f']; expected each of ['0', 'f'] once and at most one b
"test.op"() {dims = #tcp.conv_dims<[b, f, 0] x [o, i, 0] -> [b, f, f]>} : () -> ()

// -----

// CHECK: expected a batch in both input and result, or none
"test.op"() {dims = #tcp.conv_dims<[b, f, 0] x [o, i, 0] -> [f, 0]>} : () -> ()

// -----

// CHECK: 'tcp.conv' has input tensor<2x8xf32>, but roles ['b', 'f', 0] for 3 dimensions
%x, %w = "test.op"() : () -> (tensor<2x8xf32>, tensor<4x2x3xf32>)
%y = tcp.conv %x, %w strides [1] dilations [1] groups 1 dims <[b, f, 0] x [o, i, 0] -> [b, f, 0]> : tensor<2x8xf32>, tensor<4x2x3xf32> -> tensor<4x6xf32>

// -----

// CHECK: 'tcp.conv' has input tensor<1x2x8xf32> and kernel tensor<4x2x3xf16>; expected one element type
%x, %w = "test.op"() : () -> (tensor<1x2x8xf32>, tensor<4x2x3xf16>)
%y = tcp.conv %x, %w strides [1] dilations [1] groups 1 dims <[b, f, 0] x [o, i, 0] -> [b, f, 0]> : tensor<1x2x8xf32>, tensor<4x2x3xf16> -> tensor<1x4x6xf32>

// -----

// CHECK: 'tcp.conv' has strides [1, 1]; expected 1 positive integers, one for each spatial dimension
%x, %w = "test.op"() : () -> (tensor<1x2x8xf32>, tensor<4x2x3xf32>)
%y = tcp.conv %x, %w strides [1, 1] dilations [1] groups 1 dims <[b, f, 0] x [o, i, 0] -> [b, f, 0]> : tensor<1x2x8xf32>, tensor<4x2x3xf32> -> tensor<1x4x6xf32>

// -----

// CHECK: 'tcp.conv' has dilations [0]; expected 1 positive integers, one for each spatial dimension
%x, %w = "test.op"() : () -> (tensor<1x2x8xf32>, tensor<4x2x3xf32>)
%y = tcp.conv %x, %w strides [1] dilations [0] groups 1 dims <[b, f, 0] x [o, i, 0] -> [b, f, 0]> : tensor<1x2x8xf32>, tensor<4x2x3xf32> -> tensor<1x4x6xf32>

// -----

// CHECK: 'tcp.conv' cannot split 4 output features into 3 groups
%x, %w = "test.op"() : () -> (tensor<1x6x8xf32>, tensor<4x2x3xf32>)
%y = tcp.conv %x, %w strides [1] dilations [1] groups 3 dims <[b, f, 0] x [o, i, 0] -> [b, f, 0]> : tensor<1x6x8xf32>, tensor<4x2x3xf32> -> tensor<1x4x6xf32>

// -----

// CHECK: 'tcp.conv' has 3 input features in tensor<1x3x8xf32>; kernel tensor<4x2x3xf32> in 2 groups expects 4
%x, %w = "test.op"() : () -> (tensor<1x3x8xf32>, tensor<4x2x3xf32>)
%y = tcp.conv %x, %w strides [1] dilations [1] groups 2 dims <[b, f, 0] x [o, i, 0] -> [b, f, 0]> : tensor<1x3x8xf32>, tensor<4x2x3xf32> -> tensor<1x4x6xf32>

// -----

// CHECK: 'tcp.conv' has bias tensor<2xf32>; expected one f32 for each of 4 output features
%x, %w, %b = "test.op"() : () -> (tensor<1x2x8xf32>, tensor<4x2x3xf32>, tensor<2xf32>)
%y = tcp.conv %x, %w, %b strides [1] dilations [1] groups 1 dims <[b, f, 0] x [o, i, 0] -> [b, f, 0]> : tensor<1x2x8xf32>, tensor<4x2x3xf32>, tensor<2xf32> -> tensor<1x4x6xf32>

// -----

// CHECK: 'tcp.conv' has a window of 5 elements (kernel 3, dilation 2), larger than its input's 4; pad the input first
%x, %w = "test.op"() : () -> (tensor<1x2x4xf32>, tensor<4x2x3xf32>)
%y = tcp.conv %x, %w strides [1] dilations [2] groups 1 dims <[b, f, 0] x [o, i, 0] -> [b, f, 0]> : tensor<1x2x4xf32>, tensor<4x2x3xf32> -> tensor<1x4x1xf32>

// -----

// CHECK: 'tcp.conv' has a kernel without elements; expected 1 or more
%x, %w = "test.op"() : () -> (tensor<1x2x4xf32>, tensor<4x2x0xf32>)
%y = tcp.conv %x, %w strides [1] dilations [1] groups 1 dims <[b, f, 0] x [o, i, 0] -> [b, f, 0]> : tensor<1x2x4xf32>, tensor<4x2x0xf32> -> tensor<1x4x5xf32>

// -----

// CHECK: 'tcp.conv' makes tensor<1x4x6xf32>, but tensor<1x4x8xf32> is given
%x, %w = "test.op"() : () -> (tensor<1x2x8xf32>, tensor<4x2x3xf32>)
%y = tcp.conv %x, %w strides [1] dilations [1] groups 1 dims <[b, f, 0] x [o, i, 0] -> [b, f, 0]> : tensor<1x2x8xf32>, tensor<4x2x3xf32> -> tensor<1x4x8xf32>

// -----

// CHECK: 'tcp.conv_transpose' has groups 0; expected 1 or more
%x, %w = "test.op"() : () -> (tensor<1x2x8xf32>, tensor<2x4x3xf32>)
%y = tcp.conv_transpose %x, %w strides [2] dilations [1] groups 0 dims <[b, f, 0] x [i, o, 0] -> [b, f, 0]> : tensor<1x2x8xf32>, tensor<2x4x3xf32> -> tensor<1x4x17xf32>

// -----

// CHECK: 'tcp.conv_transpose' cannot split 2 input features into 3 groups
%x, %w = "test.op"() : () -> (tensor<1x2x8xf32>, tensor<2x4x3xf32>)
%y = tcp.conv_transpose %x, %w strides [2] dilations [1] groups 3 dims <[b, f, 0] x [i, o, 0] -> [b, f, 0]> : tensor<1x2x8xf32>, tensor<2x4x3xf32> -> tensor<1x4x17xf32>

// -----

// CHECK: 'tcp.conv_transpose' has 3 input features in tensor<1x3x8xf32>; kernel tensor<2x4x3xf32> in 1 groups expects 2
%x, %w = "test.op"() : () -> (tensor<1x3x8xf32>, tensor<2x4x3xf32>)
%y = tcp.conv_transpose %x, %w strides [2] dilations [1] groups 1 dims <[b, f, 0] x [i, o, 0] -> [b, f, 0]> : tensor<1x3x8xf32>, tensor<2x4x3xf32> -> tensor<1x4x17xf32>

// -----

// CHECK: 'tcp.conv_transpose' has bias tensor<4xf32>; expected one f32 for each of 8 output features
%x, %w, %b = "test.op"() : () -> (tensor<1x2x8xf32>, tensor<2x4x3xf32>, tensor<4xf32>)
%y = tcp.conv_transpose %x, %w, %b strides [2] dilations [1] groups 2 dims <[b, f, 0] x [i, o, 0] -> [b, f, 0]> : tensor<1x2x8xf32>, tensor<2x4x3xf32>, tensor<4xf32> -> tensor<1x4x17xf32>

// -----

// CHECK: 'tcp.conv_transpose' has 2 amounts in lowerExpansion, expected one for each of 1 spatial dimensions
%x, %w = "test.op"() : () -> (tensor<1x2x8xf32>, tensor<2x4x3xf32>)
%y = tcp.conv_transpose %x, %w strides [2] dilations [1] groups 1 lowerExpansion [-1, 0] dims <[b, f, 0] x [i, o, 0] -> [b, f, 0]> : tensor<1x2x8xf32>, tensor<2x4x3xf32> -> tensor<1x4x17xf32>

// -----

// CHECK: 'tcp.conv_transpose' has lowerExpansion -9 and upperExpansion -9 in spatial dimension 0, which crop more than its 17 elements; crop less
%x, %w = "test.op"() : () -> (tensor<1x2x8xf32>, tensor<2x4x3xf32>)
%y = tcp.conv_transpose %x, %w strides [2] dilations [1] groups 1 lowerExpansion [-9] upperExpansion [-9] dims <[b, f, 0] x [i, o, 0] -> [b, f, 0]> : tensor<1x2x8xf32>, tensor<2x4x3xf32> -> tensor<1x4x17xf32>

// -----

// CHECK: 'tcp.conv_transpose' has a kernel without elements; expected 1 or more
%x, %w = "test.op"() : () -> (tensor<1x2x8xf32>, tensor<2x4x0xf32>)
%y = tcp.conv_transpose %x, %w strides [2] dilations [1] groups 1 dims <[b, f, 0] x [i, o, 0] -> [b, f, 0]> : tensor<1x2x8xf32>, tensor<2x4x0xf32> -> tensor<1x4x17xf32>

// -----

// CHECK: 'tcp.conv_transpose' has an input without elements; expected 1 or more
%x, %w = "test.op"() : () -> (tensor<1x2x0xf32>, tensor<2x4x3xf32>)
%y = tcp.conv_transpose %x, %w strides [2] dilations [1] groups 1 dims <[b, f, 0] x [i, o, 0] -> [b, f, 0]> : tensor<1x2x0xf32>, tensor<2x4x3xf32> -> tensor<1x4x17xf32>

// -----

// CHECK: 'tcp.conv_transpose' makes tensor<1x4x16xf32>, but tensor<1x4x17xf32> is given
%x, %w = "test.op"() : () -> (tensor<1x2x8xf32>, tensor<2x4x3xf32>)
%y = tcp.conv_transpose %x, %w strides [2] dilations [1] groups 1 lowerExpansion [-1] dims <[b, f, 0] x [i, o, 0] -> [b, f, 0]> : tensor<1x2x8xf32>, tensor<2x4x3xf32> -> tensor<1x4x17xf32>

// -----

// CHECK: 'tcp.max_pool' has dims [1, 1]; expected different dimensions of tensor<4x9xf32>, each from 0 to 1
%x = "test.op"() : () -> tensor<4x9xf32>
%y = tcp.max_pool %x kernel [3, 3] strides [1, 1] dilations [1, 1] dims [1, 1] : tensor<4x9xf32> -> tensor<4x5xf32>

// -----

// CHECK: 'tcp.max_pool' has dims [-1]; expected different dimensions of tensor<4x9xf32>, each from 0 to 1
%x = "test.op"() : () -> tensor<4x9xf32>
%y = tcp.max_pool %x kernel [3] strides [1] dilations [1] dims [-1] : tensor<4x9xf32> -> tensor<4x7xf32>

// -----

// CHECK: 'tcp.max_pool' has kernel [0]; expected 1 positive integers, one for each spatial dimension
%x = "test.op"() : () -> tensor<4x9xf32>
%y = tcp.max_pool %x kernel [0] strides [1] dilations [1] dims [1] : tensor<4x9xf32> -> tensor<4x9xf32>

// -----

// CHECK: 'tcp.avg_pool' has a window of 10 elements (kernel 10, dilation 1), larger than its input's 9; pad the input first
%x = "test.op"() : () -> tensor<4x9xf32>
%y = tcp.avg_pool %x kernel [10] strides [1] dilations [1] dims [1] : tensor<4x9xf32> -> tensor<4x0xf32>

// -----

// CHECK: 'tcp.max_pool' makes tensor<4x3xf32>, but tensor<4x4xf32> is given
%x = "test.op"() : () -> tensor<4x9xf32>
%y = tcp.max_pool %x kernel [3] strides [3] dilations [1] dims [1] : tensor<4x9xf32> -> tensor<4x4xf32>

// -----

// CHECK: 'tcp.avg_pool' has uncountedUpper [-1]; expected 1 non-negative integers, one for each of dims
%x = "test.op"() : () -> tensor<4x9xf32>
%y = tcp.avg_pool %x kernel [3] strides [3] dilations [1] dims [1] uncountedUpper [-1] : tensor<4x9xf32> -> tensor<4x3xf32>

// -----

// CHECK: 'tcp.avg_pool' has uncountedLower [1, 1]; expected 1 non-negative integers, one for each of dims
%x = "test.op"() : () -> tensor<4x9xf32>
%y = tcp.avg_pool %x kernel [3] strides [3] dilations [1] dims [1] uncountedLower [1, 1] : tensor<4x9xf32> -> tensor<4x3xf32>

// -----

// CHECK: 'tcp.avg_pool' has divisor 0; expected another
%x = "test.op"() : () -> tensor<4x9xf32>
%y = tcp.avg_pool %x kernel [3] strides [3] dilations [1] dims [1] divisor 0 : tensor<4x9xf32> -> tensor<4x3xf32>

// -----

// CHECK: 'tcp.avg_pool' has a window in which no element counts; make it smaller, or give a divisor
%x = "test.op"() : () -> tensor<4x9xf32>
%y = tcp.avg_pool %x kernel [3] strides [3] dilations [1] dims [1] uncountedLower [3] : tensor<4x9xf32> -> tensor<4x3xf32>

// -----

// CHECK: 'tcp.arg_max_pool' has uncountedUpper [-1]; expected 1 non-negative integers, one for each of dims
%x = "test.op"() : () -> tensor<4x9xf32>
%y = tcp.arg_max_pool %x kernel [3] strides [3] dilations [1] dims [1] uncountedUpper [-1] : tensor<4x9xf32> -> tensor<4x3xi64>

// -----

// CHECK: 'tcp.arg_max_pool' makes tensor<4x3xi64>, but tensor<4x3xf32> is given
%x = "test.op"() : () -> tensor<4x9xf32>
%y = tcp.arg_max_pool %x kernel [3] strides [3] dilations [1] dims [1] : tensor<4x9xf32> -> tensor<4x3xf32>

// -----

// CHECK: 'tcp.resample' has mode nearest; expected no antialias with it
%x = "test.op"() : () -> tensor<4x9xf32>
%y = tcp.resample %x size [5] dims [1] mode nearest coordinates asymmetric {antialias} : tensor<4x9xf32> -> tensor<4x5xf32>

// -----

// CHECK: 'tcp.resample' has mode lanczos; expected antialias with it
%x = "test.op"() : () -> tensor<4x9xf32>
%y = tcp.resample %x size [5] dims [1] mode lanczos coordinates half_pixel : tensor<4x9xf32> -> tensor<4x5xf32>

// -----

// CHECK: 'tcp.resample' has mode area; expected half_pixel and no scales
%x = "test.op"() : () -> tensor<4x9xf32>
%y = tcp.resample %x size [5] dims [1] mode area coordinates asymmetric : tensor<4x9xf32> -> tensor<4x5xf32>

// -----

// CHECK: 'tcp.resample' has dims [2]; expected different dimensions of tensor<4x9xf32>, each from 0 to 1
%x = "test.op"() : () -> tensor<4x9xf32>
%y = tcp.resample %x size [5] dims [2] mode nearest coordinates asymmetric : tensor<4x9xf32> -> tensor<4x5xf32>

// -----

// CHECK: 'tcp.resample' has 2 sizes for 1 dims; expected one for each
%x = "test.op"() : () -> tensor<4x9xf32>
%y = tcp.resample %x size [5, 5] dims [1] mode nearest coordinates asymmetric : tensor<4x9xf32> -> tensor<4x5xf32>

// -----

// CHECK: 'tcp.resample' has scales [0.0]; expected 1 positive numbers, one for each of dims
%x = "test.op"() : () -> tensor<4x9xf32>
%y = tcp.resample %x size [5] dims [1] mode nearest coordinates asymmetric {scales = array<f64: 0.0>} : tensor<4x9xf32> -> tensor<4x5xf32>

// -----

// CHECK: 'tcp.resample' has scales [1.0, 2.0]; expected 1 positive numbers, one for each of dims
%x = "test.op"() : () -> tensor<4x9xf32>
%y = tcp.resample %x size [5] dims [1] mode nearest coordinates asymmetric {scales = array<f64: 1.0, 2.0>} : tensor<4x9xf32> -> tensor<4x5xf32>

// -----

// CHECK: 'tcp.resample' makes 5 elements from 0 in dimension 1; expected at least one of each
%x = "test.op"() : () -> tensor<4x0xf32>
%y = tcp.resample %x size [5] dims [1] mode nearest coordinates asymmetric : tensor<4x0xf32> -> tensor<4x5xf32>

// -----

// CHECK: 'tcp.resample' makes 0 elements from 9 in dimension 1; expected at least one of each
%x = "test.op"() : () -> tensor<4x9xf32>
%y = tcp.resample %x size [0] dims [1] mode nearest coordinates asymmetric : tensor<4x9xf32> -> tensor<4x0xf32>

// -----

// CHECK: 'tcp.resample' makes tensor<4x5xf32>, but tensor<5x5xf32> is given
%x = "test.op"() : () -> tensor<4x9xf32>
%y = tcp.resample %x size [5] dims [1] mode nearest coordinates asymmetric : tensor<4x9xf32> -> tensor<5x5xf32>

// -----

// CHECK: 'tcp.interleave' has 2 parts; expected 4, one for each phase of strides [2, 2]
%x = "test.op"() : () -> tensor<2x2xf32>
%y = tcp.interleave %x, %x strides [2, 2] dims [0, 1] : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<4x4xf32>

// -----

// CHECK: 'tcp.interleave' has a part tensor<2xf32> for phases [1]; expected tensor<1xf32>
%x = "test.op"() : () -> tensor<2xf32>
%y = tcp.interleave %x, %x strides [2] dims [0] : (tensor<2xf32>, tensor<2xf32>) -> tensor<3xf32>

// -----

// CHECK: 'tcp.interleave' has strides [0]; expected 1 positive integers, one for each spatial dimension
%x = "test.op"() : () -> tensor<2xf32>
%y = tcp.interleave %x strides [0] dims [0] : (tensor<2xf32>) -> tensor<2xf32>
