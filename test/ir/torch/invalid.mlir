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

// -----

// CHECK: aten._to_copy expects dtype to be a dtype, 0 to 44, got -1
%x = "test.op"() : () -> !torch.vtensor<[2],f32>
%n = torch.constant.int -1
%none = torch.constant.none
%false = torch.constant.bool false
%0 = torch.aten._to_copy %x, %n, %none, %none, %none, %false, %none : !torch.vtensor<[2],f32>, !torch.int, !torch.none, !torch.none, !torch.none, !torch.bool, !torch.none -> !torch.vtensor<[2],f32>

// -----

// CHECK: aten.clone expects memory_format to be a memory format, 0 to 3, got 4
%x = "test.op"() : () -> !torch.vtensor<[2],f32>
%n = torch.constant.int 4
%0 = torch.aten.clone %x, %n : !torch.vtensor<[2],f32>, !torch.int -> !torch.vtensor<[2],f32>

// -----

// CHECK: aten._to_copy expects layout to be a layout, 0 to 7, got 8
%x = "test.op"() : () -> !torch.vtensor<[2],f32>
%n = torch.constant.int 8
%none = torch.constant.none
%false = torch.constant.bool false
%0 = torch.aten._to_copy %x, %none, %n, %none, %none, %false, %none : !torch.vtensor<[2],f32>, !torch.none, !torch.int, !torch.none, !torch.none, !torch.bool, !torch.none -> !torch.vtensor<[2],f32>

// -----

// CHECK: a list of !torch.vtensor has an element of !torch.list<vtensor>
%x = torch.prim.ListConstruct : () -> !torch.list<vtensor>
%y = torch.prim.ListConstruct %x : (!torch.list<vtensor>) -> !torch.list<vtensor>

// -----

// CHECK: a list of !torch.vtensor<[2],f32> has an element of !torch.vtensor<[3],f32>
%x = torch.operator "mine.tensor"() : () -> !torch.vtensor<[3],f32>
%y = torch.prim.ListConstruct %x : (!torch.vtensor<[3],f32>) -> !torch.list<vtensor<[2],f32>>

// -----

// CHECK: a list of !torch.int has an element of !torch.none
%x = torch.constant.none
%y = torch.prim.ListConstruct %x : (!torch.none) -> !torch.list<int>

// -----

// CHECK: a list of 1 elements is unpacked to 2
%i = torch.constant.int 1
%l = torch.prim.ListConstruct %i : (!torch.int) -> !torch.list<int>
%a, %b = torch.prim.ListUnpack %l : !torch.list<int> -> !torch.int, !torch.int

// -----

// CHECK: torch.prim.If expects its branch to have (!torch.int), got (!torch.bool)
%c = torch.constant.bool true
%y = torch.prim.If %c -> (!torch.int) {
  torch.prim.If.yield %c : !torch.bool
} else {
  %int1 = torch.constant.int 1
  torch.prim.If.yield %int1 : !torch.int
}

// -----

// CHECK: torch.prim.If expects its branch to have (!torch.vtensor<[2],f32>), got (!torch.vtensor<[3],f32>)
%c = torch.constant.bool true
%x = torch.operator "mine.tensor"() : () -> !torch.vtensor<[3],f32>
%y = torch.prim.If %c -> (!torch.vtensor<[2],f32>) {
  torch.prim.If.yield %x : !torch.vtensor<[3],f32>
} else {
  torch.prim.If.yield %x : !torch.vtensor<[3],f32>
}

// -----

// CHECK: torch.prim.Loop expects its body to have (!torch.int, !torch.int), got (!torch.int)
%c = torch.constant.bool true
%n = torch.constant.int 1
%y = torch.prim.Loop %n, %c, init(%n) {
^bb0(%i: !torch.int):
  torch.prim.Loop.condition %c, iter(%i : !torch.int)
} : (!torch.int, !torch.bool, !torch.int) -> !torch.int

// -----

// CHECK: a region of torch.prim.Loop ends in 'torch.prim.Loop.condition'
%c = torch.constant.bool true
%n = torch.constant.int 1
torch.prim.Loop %n, %c, init() {
^bb0(%i: !torch.int):
  "test.termop"() : () -> ()
} : (!torch.int, !torch.bool) -> ()
