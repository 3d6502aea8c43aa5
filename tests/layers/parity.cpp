// Every layer alone against PyTorch in double precision: tests/parity/fixtures/layers.tensors.
#include "catch.h"
#include "support/devices.h"
#include "support/layer_cases.h"

using namespace lockstep;
using namespace lockstep::test;

TEST_CASE("every layer alone is within 1e-5 of PyTorch") {
  const TensorFile file = read_tensors(LOCKSTEP_SOURCE_DIR "/tests/parity/fixtures/layers.tensors");
  for (const Device& device : host_devices()) {
    const std::vector<LayerError> errors = run_layer_cases(device, file);
    CHECK(errors.size() > 80);
    for (const LayerError& e : errors) {
      INFO(name_of(device.kind) << " " << e.layer << " " << e.tensor);
      CHECK(e.error < 1e-5);
    }
  }
}
