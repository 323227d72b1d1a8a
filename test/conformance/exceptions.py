"""Tests of coremltools that are wrong themselves, and why."""

EXCEPTIONS: dict[str, str] = {
    r"iOS15/test_image_resizing\.py::TestResample::test_\w+\[.*precision='fp32'": (
        "counts 2 casts to and from fp16, which an fp32 program does not have"
    ),
    r"iOS15/test_image_resizing\.py::TestCropResize::test_builder_to_backend_smoke": (
        "its box, [2, 2, 1, 1] of a normalized image, must by crop_resize's "
        "documentation lie within [0, 1]"
    ),
    r"test_image_resizing\.py::TestCropResize::test_builder_to_backend_ios1[67]"
    r"\[.*precision='fp32'(?!.*N=1)": (
        "expects 7.899 where bilinear interpolation gives 7.9: written too coarsely"
    ),
    r"TestUpsampleBilinear::test_builder_to_backend_stress\[.*scale_factor="
    r"\(0\.5, 0\.75\)-align_corners=False.*recompute_scale_factor=False": (
        "expects recompute_scale_factor=False, while upsample_bilinear's "
        "documentation says True"
    ),
    r"TestScatter::test_ios17_invalid_indices\[.*validate_indices=False": (
        "wants wrong numbers for an index out of bounds, which the documentation "
        "leaves undefined; the evaluator refuses it"
    ),
    r"TestPReLU::test_builder_to_backend_smoke\[.*rank=[35]-alpha_values=\[1": (
        "coremltools refuses to convert it: of ranks 3 and 5, all alpha must be equal"
    ),
    r"TestGeLU::test_builder_to_backend_smoke\[.*precision='fp32'": (
        "expects numbers that were rounded to fp16: 1.954102 for gelu(2) = 1.954500"
    ),
    r"TestConv::test_type_inference_dynamic_x_with_groups": (
        "of a flexible number of channels, which coremltools limits to 1 and 2 in an "
        "ML program; it gives 8, and compares nothing"
    ),
    r"TestNormalizationLocalResponseNorm::test_builder_to_backend_smoke"
    r"\[.*precision='fp32'": (
        "its numbers have no neighbours in them, as if the channels were axis -3 "
        "(those of a neuralnetwork's layer); by local_response_norm's documentation, "
        "and by the stress tests, they are axis 1"
    ),
    r"TestSliceUpdate::test_builder_eval_scalar_corner_cases": (
        "coremltools refuses the rank-0 update that it is about"
    ),
}
"""By regular expressions of their names, each with what is wrong in the test."""
