// RUN: padc-opt %s --parsing-diagnostics --verify-diagnostics --split-input-file | filecheck %s

// CHECK: aten.relu expects operand 0 (self) to be Tensor, got !torch.int
%x = torch.constant.int 1
%y = torch.aten.relu %x : !torch.int -> !torch.vtensor<[2],f32>

// -----

// CHECK: aten.special_erfcx expects 1 operands (self), got 0; write out arguments that have a default
%y = torch.operator "torch.aten.special_erfcx"() : () -> !torch.vtensor<[2],f32>

// -----

// CHECK: aten.relu expects result 0 (unnamed) to be Tensor, got !torch.int
%x = torch.operator "mine.tensor"() : () -> !torch.vtensor<[2],f32>
%y = torch.aten.relu %x : !torch.vtensor<[2],f32> -> !torch.int

// -----

// CHECK: expected !torch.vtensor<[2],f32>, got !torch.vtensor<[3],f32>
%w = torch.vtensor.literal(dense_resource<w> : tensor<2xf32>) : !torch.vtensor<[3],f32>

// -----

// CHECK: expected a map of 0 symbols to the 2 sizes of !torch.vtensor<[2,2],f32>
%x = torch.operator "mine.tensor"() : () -> !torch.vtensor<[2,2],f32>
torch.bind_symbolic_shape %x, [], affine_map<() -> (2)> : !torch.vtensor<[2,2],f32>

// -----

// CHECK: expected tensor<2xi64>, got tensor<2xi32>
%x = torch.operator "mine.tensor"() : () -> !torch.vtensor<[2],si64>
%y = torch_c.to_builtin_tensor %x : !torch.vtensor<[2],si64> -> tensor<2xi32>

// -----

// CHECK: expected a tensor of known rank, got !torch.vtensor<*,f32>
%x = torch.operator "mine.tensor"() : () -> !torch.vtensor<*,f32>
%y = torch_c.to_builtin_tensor %x : !torch.vtensor<*,f32> -> tensor<2xf32>

// -----

// CHECK: 'complex' is not a type of the torch dialect
%x = torch.operator "mine.list"() : () -> !torch.list<complex>
