// RUN: padc-opt %s -p canonicalize | filecheck %s

// CHECK-LABEL: func.func @there_and_back
// CHECK-NEXT:  func.return %x
func.func @there_and_back(%x: !torch.vtensor<[2],si64>) -> !torch.vtensor<[2],si64> {
  %0 = torch_c.to_builtin_tensor %x : !torch.vtensor<[2],si64> -> tensor<2xi64>
  %1 = torch_c.from_builtin_tensor %0 : tensor<2xi64> -> !torch.vtensor<[2],si64>
  return %1 : !torch.vtensor<[2],si64>
}

// CHECK-LABEL: func.func @back_and_there
// CHECK-NEXT:  func.return %x
func.func @back_and_there(%x: tensor<2xi64>) -> tensor<2xi64> {
  %0 = torch_c.from_builtin_tensor %x : tensor<2xi64> -> !torch.vtensor<[2],si64>
  %1 = torch_c.to_builtin_tensor %0 : !torch.vtensor<[2],si64> -> tensor<2xi64>
  return %1 : tensor<2xi64>
}

// Ops without users go, but not those that draw random numbers: others would
// draw different ones.
// CHECK-LABEL: func.func @dead
func.func @dead(%x: !torch.vtensor<[2],f32>) {
  // CHECK-NOT: torch.aten.relu
  %0 = torch.aten.relu %x : !torch.vtensor<[2],f32> -> !torch.vtensor<[2],f32>
  // CHECK-NOT: torch.aten.special_erfcx
  %1 = torch.operator "torch.aten.special_erfcx"(%x) : (!torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32>
  %none = torch.constant.none
  // CHECK: torch.aten.bernoulli
  %2 = torch.aten.bernoulli %x, %none : !torch.vtensor<[2],f32>, !torch.none -> !torch.vtensor<[2],f32>
  // CHECK: torch.operator "mine.print"
  torch.operator "mine.print"(%x) : (!torch.vtensor<[2],f32>) -> ()
  return
}

// Signed and signless integers have the same builtin type, so a cast may change the sign.
// CHECK-LABEL: func.func @casts_that_change_the_sign
// CHECK-NEXT:    torch_c.to_builtin_tensor
// CHECK-NEXT:    torch_c.from_builtin_tensor
// CHECK-NEXT:    return
func.func @casts_that_change_the_sign(%x : !torch.vtensor<[2],i64>) -> !torch.vtensor<[2],si64> {
  %0 = torch_c.to_builtin_tensor %x : !torch.vtensor<[2],i64> -> tensor<2xi64>
  %1 = torch_c.from_builtin_tensor %0 : tensor<2xi64> -> !torch.vtensor<[2],si64>
  return %1 : !torch.vtensor<[2],si64>
}
