#include "comm/collectives.h"

#include "comm/algorithms.h"

namespace lockstep {
namespace {

class TransportCollectives final : public Collectives {
 public:
  TransportCollectives(Algorithm algorithm, Transport& transport)
      : algorithm_(algorithm), transport_(transport) {}

  const char* name() const override {
    switch (algorithm_) {
      case Algorithm::ring:
        return "ring";
      case Algorithm::tree:
        return "tree";
      case Algorithm::doubling:
        break;
    }
    return "doubling";
  }
  void all_reduce(float* data, std::int64_t count, ReduceOp op) override { reduce(data, count, op); }
  void all_reduce(double* data, std::int64_t count, ReduceOp op) override { reduce(data, count, op); }
  void reduce_scatter(float* data, std::int64_t count, ReduceOp op) override {
    ring_reduce_scatter(transport_, data, count, op);
  }
  void all_gather(float* data, std::int64_t count) override { ring_all_gather(transport_, data, count); }
  void broadcast(void* data, std::int64_t bytes, int root) override {
    (algorithm_ == Algorithm::ring ? ring_broadcast : tree_broadcast)(transport_, data, bytes, root);
  }

 private:
  template <class T>
  void reduce(T* data, std::int64_t count, ReduceOp op) {
    switch (algorithm_) {
      case Algorithm::ring:
        return ring_all_reduce(transport_, data, count, op);
      case Algorithm::tree:
        return tree_all_reduce(transport_, data, count, op);
      case Algorithm::doubling:
        return doubling_all_reduce(transport_, data, count, op);
    }
  }
  Algorithm algorithm_;
  Transport& transport_;
};

}  // namespace

std::unique_ptr<Collectives> make_collectives(Algorithm algorithm, Transport& transport) {
  return std::make_unique<TransportCollectives>(algorithm, transport);
}

}  // namespace lockstep
