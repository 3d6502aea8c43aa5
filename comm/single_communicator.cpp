#include "comm/single_communicator.h"

#include <cstring>
#include <utility>

namespace lockstep {
namespace {

// One process: the mean, sum and maximum over one rank are the data itself, so there is nothing to do.
class SingleCommunicator final : public Communicator {
 public:
  SingleCommunicator(std::unique_ptr<Stream> stream, std::unique_ptr<Allocator> allocator)
      : stream_(std::move(stream)), allocator_(std::move(allocator)) {}

  const char* name() const override { return "single"; }
  int rank() const override { return 0; }
  int size() const override { return 1; }
  Stream& stream() override { return *stream_; }
  Allocator& allocator() override { return *allocator_; }

  void all_reduce(float*, std::int64_t, ReduceOp, const std::string&) override {}
  void reduce_scatter(float*, std::int64_t, ReduceOp, const std::string&) override {}
  void all_gather(float*, std::int64_t, const std::string&) override {}
  void broadcast(float*, std::int64_t, int, const std::string&) override {}
  // Host collectives come after the work on the stream, here as in a job of many ranks.
  void all_reduce_host(double*, std::int64_t, ReduceOp, const std::string&) override {
    stream_->synchronize();
  }
  void broadcast_host(void*, std::int64_t, int, const std::string&) override { stream_->synchronize(); }
  void all_gather_host(const void* in, std::int64_t bytes, void* out, const std::string&) override {
    stream_->synchronize();
    std::memcpy(out, in, static_cast<std::size_t>(bytes));
  }
  void barrier(const std::string&) override { stream_->synchronize(); }

 private:
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Allocator> allocator_;
};

}  // namespace

std::unique_ptr<Communicator> make_single_communicator(std::unique_ptr<Stream> stream,
                                                       std::unique_ptr<Allocator> allocator) {
  return std::make_unique<SingleCommunicator>(std::move(stream), std::move(allocator));
}

}  // namespace lockstep
