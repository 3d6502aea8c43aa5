// Every collective over MPI, exact, with odd counts, for any number of ranks.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "../../catch.h"
#include "core/hash.h"
#include "core/rng.h"
#include "job.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

// An integer below 1000 by rank and place: sums over four ranks are exact in any order.
float value_of(int rank, std::int64_t i) {
  return static_cast<float>((17 * rank + 5 * i) % 1000);
}

std::vector<float> values_of(int rank, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = value_of(rank, i);
  return values;
}

// Around powers of two, around the pieces of a long message, and odd.
const std::int64_t kCounts[] = {0, 1, 2, 3, 7, 1000, 4095, 65537, (1 << 18) - 1, (1 << 18) + 1, 1000003};

// A way to reduce, and where its data lies.
struct Way {
  const char* all_reduce;
  bool reserved;
};
const Way kWays[] = {{"mpi", false},      {"ring", false}, {"tree", false},
                     {"doubling", false}, {"shm", false},  {"shm", true}};

// `count` floats of the job's communicator, which may share them with its node.
class Data {
 public:
  Data(Communicator& communicator, const Way& way, std::int64_t count)
      : communicator_(communicator), bytes_(count * 4), heap_(static_cast<std::size_t>(count)) {
    if (!way.reserved) return;
    CHECK(communicator.reserve(bytes_) == (communicator.size() > 1));
    data_ = static_cast<float*>(communicator.allocator().allocate(bytes_));
  }
  ~Data() {
    if (data_) communicator_.allocator().deallocate(data_, bytes_);
  }
  Data(const Data&) = delete;
  Data& operator=(const Data&) = delete;
  float* get() { return data_ ? data_ : heap_.data(); }
  void fill(const std::vector<float>& values) { std::copy(values.begin(), values.end(), get()); }

 private:
  Communicator& communicator_;
  std::int64_t bytes_;
  std::vector<float> heap_;
  float* data_ = nullptr;
};

// Runs check(communicator, way, data of `count`) for every way and count; ends with MPI's own.
template <class Check>
void every_way(Check&& check) {
  Communicator& communicator = job().communicator();
  for (const Way& way : kWays) {
    job().use_all_reduce(way.all_reduce);
    for (const std::int64_t count : kCounts) {
      CAPTURE(way.all_reduce, way.reserved, count);
      Data data(communicator, way, count);
      check(communicator, data, count);
    }
  }
  job().use_all_reduce("mpi");
}

float reduced(ReduceOp op, int ranks, std::int64_t i) {
  float sum = 0, largest = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    sum += value_of(rank, i);
    largest = std::max(largest, value_of(rank, i));
  }
  return op == ReduceOp::max ? largest : op == ReduceOp::sum ? sum : sum * (1.0f / static_cast<float>(ranks));
}

}  // namespace

TEST_CASE("ranks are numbered, on one host, and there is a communicator of all") {
  Communicator& communicator = job().communicator();
  CHECK(communicator.size() == job().size());
  CHECK(communicator.rank() == job().rank());
  CHECK(job().size() == launch_info().size);
  CHECK(job().local_size() == job().size());
  CHECK(job().local_rank() == job().rank());
  CHECK(std::string(communicator.name()) == (job().size() == 1 ? "single" : "mpi"));
}

TEST_CASE("--allreduce chooses the collectives of a job; a process alone has none to choose") {
  for (const char* name : {"ring", "tree", "doubling", "shm", "mpi"}) {
    job().use_all_reduce(name);
    CHECK(std::string(job().communicator().name()) == (job().size() == 1 ? "single" : name));
  }
}

TEST_CASE("all_reduce: mean, sum and maximum are exact at any count, every way") {
  every_way([](Communicator& communicator, Data& data, std::int64_t count) {
    for (const ReduceOp op : {ReduceOp::mean, ReduceOp::sum, ReduceOp::max}) {
      CAPTURE(static_cast<int>(op));
      data.fill(values_of(communicator.rank(), count));
      communicator.all_reduce(data.get(), count, op, "test");
      communicator.stream().synchronize();
      int wrong = 0;
      for (std::int64_t i = 0; i < count; ++i) wrong += data.get()[i] != reduced(op, communicator.size(), i);
      CHECK(wrong == 0);
    }
  });
}

TEST_CASE("reduce_scatter leaves each rank its chunk; all_gather makes all_reduce of it") {
  every_way([](Communicator& communicator, Data& data, std::int64_t count) {
    const int ranks = communicator.size();
    data.fill(values_of(communicator.rank(), count));
    communicator.reduce_scatter(data.get(), count, ReduceOp::sum, "test");
    communicator.stream().synchronize();
    int wrong = 0;
    const Range mine = chunk_of(count, ranks, communicator.rank());
    for (std::int64_t i = mine.begin; i < mine.begin + mine.length; ++i)
      wrong += data.get()[i] != reduced(ReduceOp::sum, ranks, i);
    CHECK(wrong == 0);
    for (std::int64_t i = 0; i < count; ++i) {
      if (i < mine.begin || i >= mine.begin + mine.length) data.get()[i] = -1;
    }
    communicator.all_gather(data.get(), count, "test");
    communicator.stream().synchronize();
    for (std::int64_t i = 0; i < count; ++i) wrong += data.get()[i] != reduced(ReduceOp::sum, ranks, i);
    CHECK(wrong == 0);
  });
}

TEST_CASE("broadcast on the stream, from any rank") {
  every_way([](Communicator& communicator, Data& data, std::int64_t count) {
    for (int root = 0; root < communicator.size(); ++root) {
      data.fill(values_of(communicator.rank(), count));
      communicator.broadcast(data.get(), count, root, "test");
      communicator.stream().synchronize();
      int wrong = 0;
      for (std::int64_t i = 0; i < count; ++i) wrong += data.get()[i] != value_of(root, i);
      CHECK(wrong == 0);
    }
  });
}

TEST_CASE("all_reduce gives the same bits on every rank, and the same in every run, where sums are rounded") {
  every_way([](Communicator& communicator, Data& data, std::int64_t count) {
    const Philox random(static_cast<std::uint64_t>(communicator.rank()), RandomStream::synthetic);
    std::vector<std::uint64_t> hashes;
    for (int run = 0; run < 2; ++run) {
      std::vector<float> values(static_cast<std::size_t>(count));
      random.fill_normal(static_cast<std::uint64_t>(count), 0.0f, 1.0f, values);
      data.fill(values);
      communicator.all_reduce(data.get(), count, ReduceOp::mean, "test");
      communicator.stream().synchronize();
      hashes.push_back(Hash().add_bytes(data.get(), values.size() * sizeof(float)).value());
    }
    CHECK(hashes[0] == hashes[1]);
    std::vector<std::uint64_t> all(static_cast<std::size_t>(communicator.size()));
    communicator.all_gather_host(&hashes[0], sizeof hashes[0], all.data(), "test");
    CHECK(all == std::vector<std::uint64_t>(all.size(), all[0]));
  });
}

TEST_CASE("all_reduce runs after the work before it on the stream, and before the work after it") {
  Communicator& communicator = job().communicator();
  std::vector<float> data(1000);
  const std::vector<float> values = values_of(communicator.rank(), 1000);
  communicator.stream().submit([&] { std::copy(values.begin(), values.end(), data.begin()); });
  communicator.all_reduce(data.data(), 1000, ReduceOp::sum, "test");
  float seen = 0;
  communicator.stream().submit([&] { seen = data[999]; });
  communicator.stream().synchronize();
  float sum = 0;
  for (int rank = 0; rank < communicator.size(); ++rank) sum += value_of(rank, 999);
  CHECK(seen == sum);
}

TEST_CASE("all_reduce_host: sums and maxima of doubles, infinity included, every way") {
  Communicator& communicator = job().communicator();
  const int rank = communicator.rank(), ranks = communicator.size();
  for (const Way& way : kWays) {
    CAPTURE(way.all_reduce);
    job().use_all_reduce(way.all_reduce);
    std::vector<double> data{static_cast<double>(rank), 1.0, 0x1p40 + rank};
    communicator.all_reduce_host(data.data(), 3, ReduceOp::sum, "test");
    const double triangle = 0.5 * ranks * (ranks - 1);
    CHECK(data == std::vector<double>{triangle, static_cast<double>(ranks), 0x1p40 * ranks + triangle});
    double flag = rank == ranks - 1 ? std::numeric_limits<double>::infinity() : 0.0;
    communicator.all_reduce_host(&flag, 1, ReduceOp::max, "test");
    CHECK(std::isinf(flag));
  }
  job().use_all_reduce("mpi");
}

TEST_CASE("broadcast and all_gather move any number of bytes from any rank") {
  Communicator& communicator = job().communicator();
  const int rank = communicator.rank(), ranks = communicator.size();
  for (const std::int64_t bytes : {0, 1, 3, 4097, (2 << 20) + 5}) {
    CAPTURE(bytes);
    const auto size = static_cast<std::size_t>(bytes);
    for (int root = 0; root < ranks; ++root) {
      std::vector<char> data(size, static_cast<char>(rank));
      communicator.broadcast_host(data.data(), bytes, root, "test");
      CHECK(data == std::vector<char>(size, static_cast<char>(root)));
    }
    const std::vector<char> mine(size, static_cast<char>(rank + 1));
    std::vector<char> all(size * static_cast<std::size_t>(ranks));
    communicator.all_gather_host(mine.data(), bytes, all.data(), "test");
    int wrong = 0;
    for (std::size_t i = 0; i < all.size(); ++i) wrong += all[i] != static_cast<char>(i / size + 1);
    CHECK(wrong == 0);
  }
}

TEST_CASE("barriers and collectives may follow each other closely") {
  Communicator& communicator = job().communicator();
  double total = 0;
  for (int i = 0; i < 200; ++i) {
    double one = 1;
    communicator.all_reduce_host(&one, 1, ReduceOp::sum, "test");
    total += one;
    communicator.barrier("test");
  }
  CHECK(total == 200.0 * communicator.size());
}
