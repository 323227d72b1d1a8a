// RUN: PADC_ROUNDTRIP

// CHECK-LABEL: func.func @pad
func.func @pad(%x : tensor<3x8xf32>, %zero : f32, %n : index) -> tensor<3x?xf32> {
  // CHECK-NEXT: tcp.pad %x, %zero lowerExpansion [0, 1] upperExpansion [0, %n] : tensor<3x8xf32>, f32 -> tensor<3x?xf32>
  %y = tcp.pad %x, %zero lowerExpansion [0, 1] upperExpansion [0, %n] : tensor<3x8xf32>, f32 -> tensor<3x?xf32>
  return %y : tensor<3x?xf32>
}

// Zero insertion, with a dynamic amount in each list.
// CHECK-LABEL: func.func @pad_interior
func.func @pad_interior(%x : tensor<3x?x8xf16>, %fill : f16, %a : index, %b : index, %c : index) -> tensor<5x?x?xf16> {
  // CHECK-NEXT: tcp.pad %x, %fill lowerExpansion [-2, %a, 0] upperExpansion [0, 0, %b] interiorExpansion [2, %c, 0] : tensor<3x?x8xf16>, f16 -> tensor<5x?x?xf16>
  %y = tcp.pad %x, %fill lowerExpansion [-2, %a, 0] upperExpansion [0, 0, %b] interiorExpansion [2, %c, 0] : tensor<3x?x8xf16>, f16 -> tensor<5x?x?xf16>
  return %y : tensor<5x?x?xf16>
}

// Integer fills are signless; there may be no dimension at all.
// CHECK-LABEL: func.func @pad_dtypes
func.func @pad_dtypes(%u : tensor<4xui8>, %b : tensor<0xi1>, %s : tensor<bf16>, %i8 : i8, %i1 : i1, %bf16 : bf16) -> (tensor<2xui8>, tensor<3xi1>, tensor<bf16>) {
  // CHECK-NEXT: tcp.pad %u, %i8 lowerExpansion [-1] upperExpansion [-1] : tensor<4xui8>, i8 -> tensor<2xui8>
  %0 = tcp.pad %u, %i8 lowerExpansion [-1] upperExpansion [-1] : tensor<4xui8>, i8 -> tensor<2xui8>
  // CHECK-NEXT: tcp.pad %b, %i1 lowerExpansion [1] upperExpansion [2] : tensor<0xi1>, i1 -> tensor<3xi1>
  %1 = tcp.pad %b, %i1 lowerExpansion [1] upperExpansion [2] : tensor<0xi1>, i1 -> tensor<3xi1>
  // CHECK-NEXT: tcp.pad %s, %bf16 lowerExpansion [] upperExpansion [] : tensor<bf16>, bf16 -> tensor<bf16>
  %2 = tcp.pad %s, %bf16 lowerExpansion [] upperExpansion [] : tensor<bf16>, bf16 -> tensor<bf16>
  return %0, %1, %2 : tensor<2xui8>, tensor<3xi1>, tensor<bf16>
}

// A type may say more of the result than can be computed.
// CHECK-LABEL: func.func @border_pads
func.func @border_pads(%x : tensor<3x8xf32>, %n : index) -> (tensor<3x9xf32>, tensor<?x10xf32>, tensor<2x16xf32>) {
  // CHECK-NEXT: tcp.replication_pad %x lowerExpansion [0, %n] upperExpansion [0, 0] : tensor<3x8xf32> -> tensor<3x9xf32>
  %0 = tcp.replication_pad %x lowerExpansion [0, %n] upperExpansion [0, 0] : tensor<3x8xf32> -> tensor<3x9xf32>
  // CHECK-NEXT: tcp.symmetric_pad %x lowerExpansion [%n, -1] upperExpansion [3, 0] : tensor<3x8xf32> -> tensor<?x7xf32>
  %mirrored = tcp.symmetric_pad %x lowerExpansion [%n, -1] upperExpansion [3, 0] : tensor<3x8xf32> -> tensor<?x7xf32>
  // CHECK-NEXT: tcp.reflection_pad %x lowerExpansion [%n, 2] upperExpansion [0, 0] {note = "kept"} : tensor<3x8xf32> -> tensor<?x10xf32>
  %1 = tcp.reflection_pad %x lowerExpansion [%n, 2] upperExpansion [0, 0] {note = "kept"} : tensor<3x8xf32> -> tensor<?x10xf32>
  // CHECK-NEXT: tcp.circular_pad %x lowerExpansion [-1, 8] upperExpansion [0, 0] : tensor<3x8xf32> -> tensor<2x16xf32>
  %2 = tcp.circular_pad %x lowerExpansion [-1, 8] upperExpansion [0, 0] : tensor<3x8xf32> -> tensor<2x16xf32>
  return %0, %1, %2 : tensor<3x9xf32>, tensor<?x10xf32>, tensor<2x16xf32>
}

// CHECK-LABEL: func.func @conv
func.func @conv(%x : tensor<1x6x8x9xf32>, %w : tensor<4x3x3x2xf32>, %b : tensor<4xf32>) -> tensor<1x4x4x7xf32> {
  // CHECK-NEXT: tcp.conv %x, %w, %b strides [1, 1] dilations [2, 2] groups 2 dims <[b, f, 0, 1] x [o, i, 0, 1] -> [b, f, 0, 1]> : tensor<1x6x8x9xf32>, tensor<4x3x3x2xf32>, tensor<4xf32> -> tensor<1x4x4x7xf32>
  %y = tcp.conv %x, %w, %b strides [1, 1] dilations [2, 2] groups 2 dims <[b, f, 0, 1] x [o, i, 0, 1] -> [b, f, 0, 1]> : tensor<1x6x8x9xf32>, tensor<4x3x3x2xf32>, tensor<4xf32> -> tensor<1x4x4x7xf32>
  return %y : tensor<1x4x4x7xf32>
}

// No bias, no batch, and every tensor in an order of its own.
// CHECK-LABEL: func.func @conv_roles
func.func @conv_roles(%x : tensor<9x8x3xf32>, %w : tensor<3x3x2x4xf32>) -> tensor<6x8x4xf32> {
  // CHECK-NEXT: tcp.conv %x, %w strides [1, 1] dilations [1, 1] groups 1 dims <[1, 0, f] x [0, i, 1, o] -> [0, 1, f]> : tensor<9x8x3xf32>, tensor<3x3x2x4xf32> -> tensor<6x8x4xf32>
  %y = tcp.conv %x, %w strides [1, 1] dilations [1, 1] groups 1 dims <[1, 0, f] x [0, i, 1, o] -> [0, 1, f]> : tensor<9x8x3xf32>, tensor<3x3x2x4xf32> -> tensor<6x8x4xf32>
  return %y : tensor<6x8x4xf32>
}

// CHECK-LABEL: func.func @conv_transpose
func.func @conv_transpose(%x : tensor<1x6x8x9xf32>, %w : tensor<6x2x3x2xf32>, %b : tensor<4xf32>) -> (tensor<1x4x17x10xf32>, tensor<1x4x16x11xf32>) {
  // CHECK-NEXT: tcp.conv_transpose %x, %w strides [2, 1] dilations [1, 1] groups 2 dims <[b, f, 0, 1] x [i, o, 0, 1] -> [b, f, 0, 1]> : tensor<1x6x8x9xf32>, tensor<6x2x3x2xf32> -> tensor<1x4x17x10xf32>
  %0 = tcp.conv_transpose %x, %w strides [2, 1] dilations [1, 1] groups 2 dims <[b, f, 0, 1] x [i, o, 0, 1] -> [b, f, 0, 1]> : tensor<1x6x8x9xf32>, tensor<6x2x3x2xf32> -> tensor<1x4x17x10xf32>
  // CHECK-NEXT: tcp.conv_transpose %x, %w, %b strides [2, 1] dilations [1, 1] groups 2 lowerExpansion [-1, 0] upperExpansion [0, 1] dims <[b, f, 0, 1] x [i, o, 0, 1] -> [b, f, 0, 1]> : tensor<1x6x8x9xf32>, tensor<6x2x3x2xf32>, tensor<4xf32> -> tensor<1x4x16x11xf32>
  %1 = tcp.conv_transpose %x, %w, %b strides [2, 1] dilations [1, 1] groups 2 lowerExpansion [-1, 0] upperExpansion [0, 1] dims <[b, f, 0, 1] x [i, o, 0, 1] -> [b, f, 0, 1]> : tensor<1x6x8x9xf32>, tensor<6x2x3x2xf32>, tensor<4xf32> -> tensor<1x4x16x11xf32>
  return %0, %1 : tensor<1x4x17x10xf32>, tensor<1x4x16x11xf32>
}

// A kernel of dynamic size, one list of amounts, no batch, channels last.
// CHECK-LABEL: func.func @conv_transpose_roles
func.func @conv_transpose_roles(%x : tensor<?x6xf16>, %w : tensor<?x5x6xf16>) -> tensor<?x5xf16> {
  // CHECK-NEXT: tcp.conv_transpose %x, %w strides [3] dilations [2] groups 1 upperExpansion [-2] dims <[0, f] x [0, o, i] -> [0, f]> : tensor<?x6xf16>, tensor<?x5x6xf16> -> tensor<?x5xf16>
  %0 = tcp.conv_transpose %x, %w strides [3] dilations [2] groups 1 upperExpansion [-2] dims <[0, f] x [0, o, i] -> [0, f]> : tensor<?x6xf16>, tensor<?x5x6xf16> -> tensor<?x5xf16>
  return %0 : tensor<?x5xf16>
}

// CHECK-LABEL: func.func @pools
func.func @pools(%x : tensor<1x4x9x?xf32>) -> (tensor<1x4x2x?xf32>, tensor<1x4x3x?xf32>, tensor<1x2x9x?xf32>, tensor<1x4x2x?xi64>) {
  // CHECK-NEXT: tcp.max_pool %x kernel [3, 2] strides [2, 1] dilations [3, 1] dims [2, 3] : tensor<1x4x9x?xf32> -> tensor<1x4x2x?xf32>
  %0 = tcp.max_pool %x kernel [3, 2] strides [2, 1] dilations [3, 1] dims [2, 3] : tensor<1x4x9x?xf32> -> tensor<1x4x2x?xf32>
  // CHECK-NEXT: tcp.avg_pool %x kernel [5] strides [2] dilations [1] dims [2] uncountedLower [1] uncountedUpper [2] : tensor<1x4x9x?xf32> -> tensor<1x4x3x?xf32>
  %1 = tcp.avg_pool %x kernel [5] strides [2] dilations [1] dims [2] uncountedLower [1] uncountedUpper [2] : tensor<1x4x9x?xf32> -> tensor<1x4x3x?xf32>
  // CHECK-NEXT: tcp.avg_pool %x kernel [3] strides [1] dilations [1] dims [1] divisor -5 : tensor<1x4x9x?xf32> -> tensor<1x2x9x?xf32>
  %2 = tcp.avg_pool %x kernel [3] strides [1] dilations [1] dims [1] divisor -5 : tensor<1x4x9x?xf32> -> tensor<1x2x9x?xf32>
  // CHECK-NEXT: tcp.arg_max_pool %x kernel [3, 2] strides [2, 1] dilations [3, 1] dims [2, 3] uncountedLower [0, 1] uncountedUpper [1, 1] : tensor<1x4x9x?xf32> -> tensor<1x4x2x?xi64>
  %3 = tcp.arg_max_pool %x kernel [3, 2] strides [2, 1] dilations [3, 1] dims [2, 3] uncountedLower [0, 1] uncountedUpper [1, 1] : tensor<1x4x9x?xf32> -> tensor<1x4x2x?xi64>
  return %0, %1, %2, %3 : tensor<1x4x2x?xf32>, tensor<1x4x3x?xf32>, tensor<1x2x9x?xf32>, tensor<1x4x2x?xi64>
}

// CHECK-LABEL: func.func @resample
func.func @resample(%x : tensor<1x4x8x?xf32>, %w : index) -> (tensor<1x4x16x?xf32>, tensor<1x4x12x?xf32>, tensor<1x4x5x?xf32>, tensor<1x4x5x?xf32>) {
  // CHECK-NEXT: tcp.resample %x size [16, %w] dims [2, 3] mode linear coordinates half_pixel : tensor<1x4x8x?xf32> -> tensor<1x4x16x?xf32>
  %0 = tcp.resample %x size [16, %w] dims [2, 3] mode linear coordinates half_pixel : tensor<1x4x8x?xf32> -> tensor<1x4x16x?xf32>
  // CHECK-NEXT: tcp.resample %x size [12] dims [2] mode nearest coordinates asymmetric {scales = array<f64: 1.500000e+00>} : tensor<1x4x8x?xf32> -> tensor<1x4x12x?xf32>
  %1 = tcp.resample %x size [12] dims [2] mode nearest coordinates asymmetric {scales = array<f64: 1.5>} : tensor<1x4x8x?xf32> -> tensor<1x4x12x?xf32>
  // CHECK-NEXT: tcp.resample %x size [5] dims [2] mode lanczos coordinates half_pixel {antialias} : tensor<1x4x8x?xf32> -> tensor<1x4x5x?xf32>
  %2 = tcp.resample %x size [5] dims [2] mode lanczos coordinates half_pixel {antialias} : tensor<1x4x8x?xf32> -> tensor<1x4x5x?xf32>
  // CHECK-NEXT: tcp.resample %x size [5] dims [2] mode area coordinates half_pixel : tensor<1x4x8x?xf32> -> tensor<1x4x5x?xf32>
  %3 = tcp.resample %x size [5] dims [2] mode area coordinates half_pixel : tensor<1x4x8x?xf32> -> tensor<1x4x5x?xf32>
  return %0, %1, %2, %3 : tensor<1x4x16x?xf32>, tensor<1x4x12x?xf32>, tensor<1x4x5x?xf32>, tensor<1x4x5x?xf32>
}

// CHECK-LABEL: func.func @interleave
func.func @interleave(%a : tensor<4x?xf32>, %b : tensor<3x?xf32>) -> tensor<7x?xf32> {
  // CHECK-NEXT: tcp.interleave %a, %b strides [2] dims [0] : (tensor<4x?xf32>, tensor<3x?xf32>) -> tensor<7x?xf32>
  %0 = tcp.interleave %a, %b strides [2] dims [0] : (tensor<4x?xf32>, tensor<3x?xf32>) -> tensor<7x?xf32>
  return %0 : tensor<7x?xf32>
}
