// RUN: padc-opt -p narrow-float64 %s | filecheck %s

// What the program takes and returns is not changed.
// CHECK-LABEL: func.func @main(%x: !torch.vtensor<[2],f64>) -> !torch.vtensor<[2],f64>
// CHECK-NEXT:    torch.aten.exp %x : !torch.vtensor<[2],f64>
func.func @main(%x : !torch.vtensor<[2],f64>) -> !torch.vtensor<[2],f64> {
  %y = torch.aten.exp %x : !torch.vtensor<[2],f64> -> !torch.vtensor<[2],f64>
  return %y : !torch.vtensor<[2],f64>
}
