// SPDX-License-Identifier: Apache-2.0
#include "tests/backends/garbage/run_with_garbage.h"

#include <cstring>
#include <iterator>
#include <list>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/executor/executor.h"
#include "gtest/gtest.h"
#include "mtf/status.h"
#include "tests/backends/fused_for.h"
#include "tests/backends/garbage/garbage_device.h"
#include "tests/matchers.h"

namespace mtf::testing {
namespace {

// The first element whose bits differ, or "".
std::string Difference(const Values& want, const Values& got) {
  if (want.size() != got.size()) return "other fetches";
  for (const auto& [name, x] : want) {
    const HostTensor& y = got.at(name);
    const int64_t size = DTypeSize(x.dtype());
    const auto bits = [size](const HostTensor& tensor, int64_t i) {
      return static_cast<const char*>(tensor.data()) + i * size;
    };
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      if (std::memcmp(bits(x, i), bits(y, i), size) == 0) continue;
      return absl::StrCat(name, " element ", i, " of [", x.shape().ToString(),
                          "] is ", *y.At(i), ", not ", *x.At(i));
    }
  }
  return "";
}

}  // namespace

absl::StatusOr<GarbageRun> RunWithGarbage(
    LocalRanks& ranks, absl::Span<const Program* const> programs,
    const Values& feeds, const std::string& device_name, Garbage garbage) {
  GarbageRun run;
  run.outputs.resize(programs[0]->mesh.num_devices());
  MTF_RETURN_IF_ERROR(ranks.Run([&](Communicator& host) -> absl::Status {
    MTF_ASSIGN_OR_RETURN(const std::unique_ptr<GarbageDevice> device,
                         GarbageDevice::Create(device_name, garbage));
    MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> connection,
                         device->Connect(host));
    Communicator& communicator = connection != nullptr ? *connection : host;
    VariableStore store(*device);
    uint32_t step = 0;
    // The device knows programs by their addresses.
    std::list<Program> fused;
    for (const Program* program : programs) {
      fused.push_back(FusedFor(*device, *program));
      MTF_ASSIGN_OR_RETURN(
          const std::unique_ptr<Executor> executor,
          Executor::Create(fused.back(), *device, communicator, store));
      MTF_RETURN_IF_ERROR(
          executor->Run(feeds, 5, step++, &run.outputs[host.rank()]));
    }
    if (host.rank() == 0) run.groups = device->groups();
    return absl::OkStatus();
  }));
  StopFillingHeap();
  return run;
}

int ExpectIndependentOfGarbage(LocalRanks& ranks,
                               absl::Span<const Program* const> programs,
                               const Values& feeds, const std::string& device,
                               uint64_t number) {
  constexpr size_t kKinds = std::size(kAllGarbage);
  const size_t first = number % kKinds,
               second = (first + 1 + number / kKinds % (kKinds - 1)) % kKinds;
  SCOPED_TRACE(absl::StrCat(NameOf(kAllGarbage[first]), " and ",
                            NameOf(kAllGarbage[second])));
  const auto want =
      RunWithGarbage(ranks, programs, feeds, device, kAllGarbage[first]);
  const auto got =
      RunWithGarbage(ranks, programs, feeds, device, kAllGarbage[second]);
  EXPECT_OK(want);
  EXPECT_OK(got);
  if (!want.ok() || !got.ok()) return 0;
  for (size_t rank = 0; rank < want->outputs.size(); ++rank) {
    EXPECT_EQ(Difference(want->outputs[rank], got->outputs[rank]), "")
        << "rank " << rank;
    // Every rank fetches whole tensors.
    EXPECT_EQ(Difference(got->outputs[0], got->outputs[rank]), "")
        << "rank " << rank << " and rank 0";
  }
  return got->groups;
}

}  // namespace mtf::testing
