// RUN: PADC_ROUNDTRIP

// CHECK-LABEL: func.func @constants
func.func @constants() {
  // CHECK-NEXT: %int-5 = torch.constant.int -5
  %int-5 = torch.constant.int -5
  // CHECK-NEXT: torch.constant.int 9223372036854775807
  %int = torch.constant.int 9223372036854775807
  // CHECK-NEXT: torch.constant.float 1.000000e-05
  %float1.000000e-05 = torch.constant.float 1.000000e-05
  // CHECK-NEXT: torch.constant.float 0.12345678900000001
  %f1 = torch.constant.float 0.12345678900000001
  // CHECK-NEXT: torch.constant.float -0.000000e+00
  %f2 = torch.constant.float -0.000000e+00
  // CHECK-NEXT: torch.constant.float 0xfff0000000000000
  %f3 = torch.constant.float 0xFFF0000000000000
  // CHECK-NEXT: torch.constant.float 0x7ff8000000000000
  %f4 = torch.constant.float 0x7FF8000000000000
  // CHECK-NEXT: torch.constant.bool true {note = "kept"}
  %true = torch.constant.bool true {note = "kept"}
  // CHECK-NEXT: torch.constant.none
  %none = torch.constant.none
  // CHECK-NEXT: torch.constant.str "say \22same\22"
  %str = torch.constant.str "say \22same\22"
  // CHECK-NEXT: torch.constant.device "cpu"
  %cpu = torch.constant.device "cpu"
  return
}

// CHECK-LABEL: func.func @lists
func.func @lists(%i : !torch.int, %x : !torch.vtensor<[2],si64>, %none : !torch.none) {
  // CHECK-NEXT: torch.prim.ListConstruct %i, %i : (!torch.int, !torch.int) -> !torch.list<int>
  %0 = torch.prim.ListConstruct %i, %i : (!torch.int, !torch.int) -> !torch.list<int>
  // CHECK-NEXT: torch.prim.ListConstruct : () -> !torch.list<int>
  %1 = torch.prim.ListConstruct  : () -> !torch.list<int>
  // CHECK-NEXT: torch.prim.ListConstruct %none, %x : (!torch.none, !torch.vtensor<[2],si64>) -> !torch.list<optional<vtensor>>
  %2 = torch.prim.ListConstruct %none, %x : (!torch.none, !torch.vtensor<[2],si64>) -> !torch.list<optional<vtensor>>
  // CHECK-NEXT: torch.prim.ListUnpack %{{.*}} : !torch.list<int> -> !torch.int, !torch.int
  %3:2 = torch.prim.ListUnpack %0 : !torch.list<int> -> !torch.int, !torch.int
  // CHECK-NEXT: torch.prim.TupleConstruct %i, %none : !torch.int, !torch.none -> !torch.tuple<int, none>
  %4 = torch.prim.TupleConstruct %i, %none : !torch.int, !torch.none -> !torch.tuple<int, none>
  return
}

// CHECK-LABEL: func.func @types
// CHECK-SAME: !torch.vtensor, %{{.*}} !torch.vtensor<*,f32>, %{{.*}} !torch.vtensor<[?],unk>, %{{.*}} !torch.vtensor<[],bf16>
// CHECK-SAME: !torch.vtensor<[0,2],ui8>, %{{.*}} !torch.vtensor<[2],complex<f32>>
// CHECK-SAME: !torch.list<list<vtensor<[2],f16>>>, %{{.*}} !torch.any, %{{.*}} !torch.Generator
func.func @types(%0: !torch.vtensor, %1: !torch.vtensor<*,f32>, %2: !torch.vtensor<[?],unk>, %3: !torch.vtensor<[],bf16>,
                 %4: !torch.vtensor<[0,2],ui8>, %5: !torch.vtensor<[2],complex<f32>>,
                 %6: !torch.list<list<vtensor<[2],f16>>>, %7: !torch.any, %8: !torch.Generator, %9: !torch.number) {
  return
}

// CHECK-LABEL: func.func @literals
func.func @literals() {
  // CHECK-NEXT: torch.vtensor.literal(dense_resource<layer1.0.conv1.weight> : tensor<2x3xf32>) : !torch.vtensor<[2,3],f32>
  %0 = torch.vtensor.literal(dense_resource<layer1.0.conv1.weight> : tensor<2x3xf32>) : !torch.vtensor<[2,3],f32>
  // CHECK-NEXT: torch.vtensor.literal(dense<[1, -2]> : tensor<2xsi64>) : !torch.vtensor<[2],si64>
  %1 = torch.vtensor.literal(dense<[1, -2]> : tensor<2xsi64>) : !torch.vtensor<[2],si64>
  // CHECK-NEXT: torch.vtensor.literal(dense<true> : tensor<i1>) : !torch.vtensor<[],i1>
  %2 = torch.vtensor.literal(dense<true> : tensor<i1>) : !torch.vtensor<[],i1>
  return
}

// CHECK-LABEL: func.func @aten
func.func @aten(%x: !torch.vtensor<[1,3,?,8],f32>, %l: !torch.list<int>, %false: !torch.bool) {
  // CHECK-NEXT: %y, %i = torch.aten.max_pool2d_with_indices %x, %l, %l, %l, %l, %false : !torch.vtensor<[1,3,?,8],f32>, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool -> !torch.vtensor<[1,3,?,4],f32>, !torch.vtensor<[1,3,?,4],si64>
  %y, %i = torch.aten.max_pool2d_with_indices %x, %l, %l, %l, %l, %false : !torch.vtensor<[1,3,?,8],f32>, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool -> !torch.vtensor<[1,3,?,4],f32>, !torch.vtensor<[1,3,?,4],si64>
  // CHECK-NEXT: torch.aten.relu %y {note = 1 : i64} : !torch.vtensor<[1,3,?,4],f32> -> !torch.vtensor<[1,3,?,4],f32>
  %r = torch.aten.relu %y {note = 1} : !torch.vtensor<[1,3,?,4],f32> -> !torch.vtensor<[1,3,?,4],f32>
  // CHECK-NEXT: torch.operator "torch.aten.special_erfcx"(%{{.*}}) : (!torch.vtensor<[1,3,?,8],f32>) -> !torch.vtensor<[1,3,?,8],f32>
  %g = torch.operator "torch.aten.special_erfcx"(%x) : (!torch.vtensor<[1,3,?,8],f32>) -> !torch.vtensor<[1,3,?,8],f32>
  // An op that PyTorch itself does not have.
  // CHECK-NEXT: torch.operator "mine.split"(%{{.*}}) {into = 2 : i64} : (!torch.vtensor<[1,3,?,8],f32>) -> (!torch.vtensor, !torch.vtensor)
  %m:2 = torch.operator "mine.split"(%x) {into = 2} : (!torch.vtensor<[1,3,?,8],f32>) -> (!torch.vtensor, !torch.vtensor)
  return
}

// CHECK-LABEL: func.func @symbols
// CHECK-SAME: {padc.name = "x"}
func.func @symbols(%x: !torch.vtensor<[1,?,?],f32> {padc.name = "x"}) -> (!torch.int {padc.name = "y"}) {
  // CHECK-NEXT: torch.symbolic_int "s0" {min_val = 2, max_val = 64} : !torch.int
  %s0 = torch.symbolic_int "s0" {min_val = 2, max_val = 64} : !torch.int
  // CHECK-NEXT: torch.bind_symbolic_shape %x, [%s0], affine_map<()[s0] -> (1, s0, ((s0 * 2) + 1))> : !torch.vtensor<[1,?,?],f32>
  torch.bind_symbolic_shape %x, [%s0], affine_map<()[s0] -> (1, s0, s0 * 2 + 1)> : !torch.vtensor<[1,?,?],f32>
  %int1 = torch.constant.int 1
  // CHECK: torch.aten.size.int %x, %int1 : !torch.vtensor<[1,?,?],f32>, !torch.int -> !torch.int
  %n = torch.aten.size.int %x, %int1 : !torch.vtensor<[1,?,?],f32>, !torch.int -> !torch.int
  return %n : !torch.int
}

// CHECK-LABEL: func.func @casts
func.func @casts(%x: !torch.vtensor<[?],si64>) -> !torch.vtensor<[?],si64> {
  // CHECK-NEXT: torch_c.to_builtin_tensor %x : !torch.vtensor<[?],si64> -> tensor<?xi64>
  %0 = torch_c.to_builtin_tensor %x : !torch.vtensor<[?],si64> -> tensor<?xi64>
  // CHECK-NEXT: torch_c.from_builtin_tensor %{{.*}} : tensor<?xi64> -> !torch.vtensor<[?],si64>
  %1 = torch_c.from_builtin_tensor %0 : tensor<?xi64> -> !torch.vtensor<[?],si64>
  return %1 : !torch.vtensor<[?],si64>
}

// CHECK-LABEL: func.func @branches
func.func @branches(%x : !torch.vtensor<[2,?],f32>, %c : !torch.bool) {
  // CHECK-NEXT: %y, %n = torch.prim.If %c -> (!torch.vtensor<[2,?],f32>, !torch.int) {
  %y, %n = torch.prim.If %c -> (!torch.vtensor<[2,?],f32>, !torch.int) {
    // CHECK-NEXT: torch.constant.int 1
    %int1 = torch.constant.int 1
    // CHECK-NEXT: torch.prim.If.yield %x, %int1 : !torch.vtensor<[2,?],f32>, !torch.int
    torch.prim.If.yield %x, %int1 : !torch.vtensor<[2,?],f32>, !torch.int
  // CHECK-NEXT: } else {
  } else {
    %int2 = torch.constant.int 2
    %z = torch.aten.relu %x : !torch.vtensor<[2,?],f32> -> !torch.vtensor<[2,?],f32>
    // CHECK: torch.prim.If.yield %z, %int2 : !torch.vtensor<[2,?],f32>, !torch.int
    torch.prim.If.yield %z, %int2 : !torch.vtensor<[2,?],f32>, !torch.int
  // CHECK-NEXT: } {note = "kept"}
  } {note = "kept"}
  // CHECK-NEXT: torch.prim.If %c -> () {
  torch.prim.If %c -> () {
    // CHECK-NEXT: torch.prim.If.yield
    torch.prim.If.yield
  } else {
    torch.prim.If.yield
  }
  return
}

// CHECK-LABEL: func.func @loops
func.func @loops(%x : !torch.vtensor<[2],f32>, %n : !torch.int) {
  // CHECK-NEXT: %true = torch.constant.bool true
  %true = torch.constant.bool true
  // CHECK-NEXT: %y = torch.prim.Loop %n, %true, init(%x) {
  %y = torch.prim.Loop %n, %true, init(%x) {
  // CHECK-NEXT: ^bb0(%i: !torch.int, %v: !torch.vtensor<[2],f32>):
  ^bb0(%i: !torch.int, %v: !torch.vtensor<[2],f32>):
    // CHECK-NEXT: torch.prim.Loop.condition %true, iter(%x : !torch.vtensor<[2],f32>)
    torch.prim.Loop.condition %true, iter(%x : !torch.vtensor<[2],f32>)
  // CHECK-NEXT: } : (!torch.int, !torch.bool, !torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32>
  } : (!torch.int, !torch.bool, !torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32>
  // CHECK-NEXT: torch.prim.Loop %n, %true, init() {
  torch.prim.Loop %n, %true, init() {
  ^bb0(%i: !torch.int):
    // CHECK: torch.prim.Loop.condition %true, iter()
    torch.prim.Loop.condition %true, iter()
  // CHECK-NEXT: } : (!torch.int, !torch.bool) -> ()
  } : (!torch.int, !torch.bool) -> ()
  return
}
