// Start-up verification over MPI: what differs on one rank is named on all of them.
#include "../../catch.h"
#include "comm/verify.h"
#include "job.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

// The error that body throws; code ok where it throws none.
template <class Body>
Error error_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  return Error(ExitCode::ok, "");
}

}  // namespace

TEST_CASE("equal options and parameters pass") {
  const Items items{{"lr", "0.1"}, {"model", "resnet50"}};
  CHECK(error_of([&] { verify_equal(job().communicator(), "option", items); }).code() == ExitCode::ok);
}

TEST_CASE("an option that differs on the last rank is named on every rank") {
  const int last = job().size() - 1;
  const Items items{{"model", "resnet50"}, {"lr", job().rank() == last && last > 0 ? "0.2" : "0.1"}};
  const Error error = error_of([&] { verify_equal(job().communicator(), "option", items); });
  if (job().size() == 1) {
    CHECK(error.code() == ExitCode::ok);
  } else {
    CHECK(error.code() == ExitCode::peer);
    CHECK_THAT(error.what(),
               ContainsSubstring("option lr is '0.1' on rank 0 but '0.2' on rank " + std::to_string(last)));
  }
}

TEST_CASE("parameters of equal shapes in another order are found") {
  Items items{{"bn1.weight", "64"}, {"bn1.bias", "64"}};
  if (job().rank() == 1) std::swap(items[0], items[1]);
  const Error error = error_of([&] { verify_equal(job().communicator(), "parameter", items); });
  CHECK(error.code() == (job().size() == 1 ? ExitCode::ok : ExitCode::peer));
  if (job().size() > 1) {
    CHECK_THAT(error.what(),
               ContainsSubstring("parameter 0 is 'bn1.weight' on rank 0 but 'bn1.bias' on rank 1"));
  }
}

TEST_CASE("an error of the last rank alone is thrown on every rank, with its code") {
  const int last = job().size() - 1;
  const bool mine = job().rank() == last;
  const Error error = error_of([&] {
    agree_on_error(job().communicator(), mine ? ExitCode::data : ExitCode::ok,
                   mine ? "cannot read batch_1" : "");
  });
  CHECK(error.code() == ExitCode::data);
  CHECK_THAT(error.what(), ContainsSubstring("cannot read batch_1"));
  if (last > 0) CHECK_THAT(error.what(), ContainsSubstring("on rank " + std::to_string(last)));
  CHECK(error_of([&] { agree_on_error(job().communicator(), ExitCode::ok, ""); }).code() == ExitCode::ok);
}
