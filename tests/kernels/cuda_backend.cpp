// What a program meets that asks for a CUDA device, with and without the CUDA Toolkit, a driver or a GPU.
#include "catch.h"
#include "core/error.h"
#include "kernels/backend.h"

using namespace lockstep;

TEST_CASE("cuda: the device count is zero with a reason, or more without one") {
  std::string why;
  const int count = cuda_device_count(&why);
  CHECK(count >= 0);
  CHECK(why.empty() == (count > 0));
  CHECK(cuda_device_count() == count);
}

TEST_CASE("cuda: a device that is not there is an error, not another device") {
  for (const int index : {cuda_device_count(), 1000}) {
    try {
      make_backend({.kind = DeviceKind::cuda, .index = index});
      FAIL("there is no such device");
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::device);
      CHECK(std::string(error.what()).find("CUDA") != std::string::npos);
    }
  }
  CHECK_FALSE(cuda_backend_libraries().empty());
}
