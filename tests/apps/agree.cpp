// Errors that all ranks know, and those that only look like it.
#include "apps/training/agree.h"

#include <filesystem>
#include <new>

#include "catch.h"
#include "comm/thread_communicator.h"

using namespace lockstep;
using test::run_ranks;

namespace {

// A communicator whose peers are gone.
class LostCommunicator final : public Communicator {
 public:
  const char* name() const override { return "lost"; }
  int rank() const override { return 0; }
  int size() const override { return 2; }
  Stream& stream() override { return stream_; }
  Allocator& allocator() override { return allocator_; }
  void all_reduce(float*, std::int64_t, ReduceOp, const std::string&) override { lost(); }
  void reduce_scatter(float*, std::int64_t, ReduceOp, const std::string&) override { lost(); }
  void all_gather(float*, std::int64_t, const std::string&) override { lost(); }
  void broadcast(float*, std::int64_t, int, const std::string&) override { lost(); }
  void all_reduce_host(double*, std::int64_t, ReduceOp, const std::string&) override { lost(); }
  void broadcast_host(void*, std::int64_t, int, const std::string&) override { lost(); }
  void all_gather_host(const void*, std::int64_t, void*, const std::string&) override { lost(); }
  void barrier(const std::string&) override { lost(); }

 private:
  [[noreturn]] static void lost() { fail(ExitCode::peer, "connection lost"); }
  InlineStream stream_;
  HostAllocator allocator_;
};

// What all ranks throw where one of them fails with an exception of this kind.
template <class Exception>
ExitCode code_of(const Exception& exception) {
  std::vector<ExitCode> codes(3, ExitCode::ok);
  const auto errors = run_ranks(3, [&](Communicator& communicator) {
    try {
      all_or_none(communicator, [&] {
        if (communicator.rank() == 1) throw exception;
      });
    } catch (const AgreedError& error) {
      codes[static_cast<std::size_t>(communicator.rank())] = error.code();
    }
  });
  for (const std::string& error : errors) CHECK(error == "");
  CHECK(codes[1] == codes[0]);
  CHECK(codes[2] == codes[0]);
  return codes[0];
}

}  // namespace

TEST_CASE("whatever one rank throws, all agree on") {
  CHECK(code_of(Error(ExitCode::data, "no file")) == ExitCode::data);
  CHECK(code_of(std::bad_alloc()) == ExitCode::memory);
  CHECK(code_of(std::filesystem::filesystem_error("surprise", std::error_code())) == ExitCode::internal);
}

TEST_CASE("a failure of the comparison itself is this rank's alone") {
  LostCommunicator communicator;
  const auto is_agreed = [](auto&& function) {
    try {
      function();
    } catch (const AgreedError&) {
      return true;
    } catch (const Error&) {
      return false;
    }
    FAIL("no error");
    return false;
  };
  CHECK_FALSE(is_agreed([&] { all_or_none(communicator, [] { fail(ExitCode::data, "no file"); }); }));
  CHECK_FALSE(is_agreed([&] { verify_equal(communicator, "option", {{"lr", "0.1"}}); }));
}
