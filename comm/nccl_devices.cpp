#include "comm/nccl_devices.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <vector>

#include "comm/verify.h"
#include "core/cuda_identity.h"
#include "core/error.h"

namespace lockstep {
namespace {

// What a rank tells the others. Fixed sizes: one all-gather.
struct Place {
  std::array<char, 64> host{}, uuid{}, name{};
};

template <std::size_t kSize>
void copy_text(const std::string& text, std::array<char, kSize>& to) {
  text.copy(to.data(), kSize - 1);
}

Place place_of(int device) {
  Place place;
  gethostname(place.host.data(), place.host.size() - 1);
  const CudaIdentity identity = cuda_identity(device);
  copy_text(identity.uuid, place.uuid);
  copy_text(identity.name, place.name);
  return place;
}

void refuse(const std::vector<Place>& places) {
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const Place& mine = places[rank];
    for (std::size_t other = 0; other < rank; ++other) {
      const Place& theirs = places[other];
      if (mine.host == theirs.host && mine.uuid == theirs.uuid) {
        throw AgreedError(
            ExitCode::device,
            fmt::format("ranks {} and {} on host {} have the same CUDA device ({}, UUID {}): give "
                        "each rank a device of its own (CUDA_VISIBLE_DEVICES), or start fewer ranks",
                        other, rank, mine.host.data(), mine.name.data(), mine.uuid.data()));
      }
    }
    if (mine.name != places[0].name) {
      throw AgreedError(
          ExitCode::device,
          fmt::format("rank 0 on host {} has a {}, rank {} on host {} a {}: the ranks of a job wait for the "
                      "slowest and would compute with different kernels. Start them on devices of one type "
                      "(CUDA_VISIBLE_DEVICES)",
                      places[0].host.data(), places[0].name.data(), rank, mine.host.data(),
                      mine.name.data()));
    }
  }
}

// Where two devices of a host cannot reach each other's memory, NCCL takes a segment of this size for each
// connection ("failed to extend /dev/shm/nccl-... to 9637892 bytes").
constexpr std::int64_t kSegment = 9637892;

// Of this host, where devices without access to each other make NCCL use it.
std::string why_not_by_shared_memory(int ranks_of_host) {
  const char* disabled = std::getenv("NCCL_SHM_DISABLE");
  struct statvfs space = {};
  if (ranks_of_host < 2 || (disabled && std::atoi(disabled) != 0) || cuda_peers_everywhere() ||
      statvfs("/dev/shm", &space) != 0)
    return "";
  return shared_memory_problem(
      static_cast<std::int64_t>(space.f_bavail) * static_cast<std::int64_t>(space.f_frsize), ranks_of_host);
}

}  // namespace

// Two connections a rank: to the next one, and from the one before.
std::string shared_memory_problem(std::int64_t free_bytes, int ranks_of_host) {
  const std::int64_t needed = 2 * kSegment * ranks_of_host;
  if (free_bytes >= needed) return "";
  constexpr double kMiB = 1 << 20;
  return fmt::format(
      "/dev/shm has {:.0f} MiB left, and NCCL may need {:.0f} for {} ranks of a host: start the "
      "container with --shm-size=1g (or --ipc=host), remove old files there, or set NCCL_SHM_DISABLE=1",
      static_cast<double>(free_bytes) / kMiB, static_cast<double>(needed) / kMiB, ranks_of_host);
}

void check_devices(Communicator& host, int device) {
  Place mine;
  ExitCode code = ExitCode::ok;
  std::string message;
  try {
    mine = place_of(device);
  } catch (const Error& error) {
    code = error.code();
    message = error.what();
  }
  agree_on_error(host, code, message);
  std::vector<Place> places(static_cast<std::size_t>(host.size()));
  host.all_gather_host(&mine, sizeof mine, places.data(), "the ranks' devices");
  refuse(places);
  int ranks_of_host = 0;
  for (const Place& place : places) ranks_of_host += place.host == mine.host ? 1 : 0;
  message = why_not_by_shared_memory(ranks_of_host);
  agree_on_error(host, message.empty() ? ExitCode::ok : ExitCode::peer, message);
}

}  // namespace lockstep
