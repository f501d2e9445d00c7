// SPDX-License-Identifier: Apache-2.0
// Build: -O1 (most of the time is spent in its own loops)
//
// Virtual devices of one emulated GPU. Its memory is host memory, so the checks
// of all communicators apply unchanged.
#include "backends/cuda/communicators/loopback.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/cuda/codegen/kernel_text.h"
#include "backends/cuda/communicators/loopback_kernels.h"
#include "backends/cuda/library.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mtf/check.h"
#include "tests/backends/communicators/collective_checks.h"
#include "tests/matchers.h"
#include "tests/requirements.h"

namespace mtf::cuda {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Mesh ParseMesh(const std::string& text) {
  absl::StatusOr<Mesh> mesh = Mesh::Parse(text);
  MTF_CHECK_OK(mesh.status());
  return *std::move(mesh);
}

AxisList AllAxes(const Mesh& mesh) {
  AxisList axes;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) axes.push_back(axis);
  return axes;
}

// The ranks of `mesh` with their connections.
class Virtual {
 public:
  explicit Virtual(const std::string& mesh)
      : mesh_(ParseMesh(mesh)),
        ranks_(mesh_),
        connections_(mesh_.num_devices()) {
    absl::StatusOr<std::shared_ptr<Runtime>> runtime = OpenEmulatedGpu();
    MTF_CHECK_OK(runtime.status());
    runtime_ = *runtime;
    MTF_CHECK_OK(ranks_.Run([&](Communicator& host) -> absl::Status {
      MTF_ASSIGN_OR_RETURN(connections_[host.rank()], Connect(runtime_, host));
      return absl::OkStatus();
    }));
  }

  absl::Status Run(const std::function<absl::Status(Connection&)>& body) {
    return ranks_.Run(
        [&](Communicator& host) { return body(*connections_[host.rank()]); });
  }
  const Mesh& mesh() const { return mesh_; }

 private:
  Mesh mesh_;
  LocalRanks ranks_;
  std::shared_ptr<Runtime> runtime_;
  std::vector<std::unique_ptr<Connection>> connections_;
};

class LoopbackOnMesh : public ::testing::TestWithParam<const char*> {};

TEST_P(LoopbackOnMesh, EveryCollectiveOverEveryGroup) {
  Virtual devices(GetParam());
  EXPECT_OK(devices.Run([](Connection& connection) {
    return mtf::testing::CheckCommunicator(connection, 1237);
  }));
}

TEST_P(LoopbackOnMesh, FailedRankReleasesTheOthers) {
  Virtual devices(GetParam());
  for (int64_t failing = 0; failing < devices.mesh().num_devices(); ++failing) {
    EXPECT_THAT(devices.Run([&](Connection& connection) -> absl::Status {
      MTF_ASSIGN_OR_RETURN(const auto* group,
                           connection.GroupOver(AllAxes(devices.mesh())));
      std::vector<float> in(500, 1.0f), out(500);
      const Communicator::ReduceBuffer buffer = {in.data(), out.data(), 500};
      for (int i = 0;; ++i) {
        if (connection.rank() == failing && i == 3) {
          return absl::OutOfRangeError("the reason");
        }
        MTF_RETURN_IF_ERROR(
            connection.AllReduce(*group, {buffer}, kFloat32, ReduceKind::kSum));
      }
    }),
                StatusIs(absl::StatusCode::kOutOfRange, "the reason"));
  }
  // Later collectives work again.
  EXPECT_OK(devices.Run([](Connection& connection) {
    return mtf::testing::CheckRepeats(connection, 5);
  }));
}

INSTANTIATE_TEST_SUITE_P(Meshes, LoopbackOnMesh,
                         ::testing::Values("x:1", "x:2", "x:3", "x:2,y:2",
                                           "x:2,y:1,z:2", "x:2,y:3"));

TEST(Loopback, MismatchedCollectivesAreReported) {
  Virtual devices("x:2");
  EXPECT_THAT(
      devices.Run([&](Connection& connection) -> absl::Status {
        MTF_ASSIGN_OR_RETURN(const auto* group, connection.GroupOver({0}));
        std::vector<float> in(64), out(128);
        return connection.AllGather(*group, in.data(), out.data(),
                                    connection.rank() == 0 ? 128 : 256);
      }),
      StatusIs(absl::StatusCode::kAborted,
               HasSubstr("rank 0 calls all_gather of 128 bytes, rank 1 calls "
                         "all_gather of 256 bytes")));
}

// Adds 1 to each rank's value and sums over ranks; the sum is fed back.
struct Loop {
  std::vector<float> in = std::vector<float>(8), out = std::vector<float>(8);
  std::unique_ptr<Replay> replay;
  int enqueued = 0;
  CollectiveCounts counts;
};

TEST(Loopback, StepIsRecordedOnceAndCountedAtEveryReplay) {
  Virtual devices("x:2,y:2");
  std::vector<Loop> loops(4);
  for (int step = 0; step < 5; ++step) {
    for (size_t rank = 0; rank < loops.size(); ++rank) {
      loops[rank].in.assign(8, static_cast<float>(rank + 10 * step));
    }
    ASSERT_OK(devices.Run([&](Connection& connection) -> absl::Status {
      Loop& mine = loops[connection.rank()];
      MTF_ASSIGN_OR_RETURN(const auto* group, connection.GroupOver({1}));
      connection.ResetCounts();
      const auto work = [&]() -> absl::Status {
        ++mine.enqueued;
        const Communicator::ReduceBuffer buffer = {mine.in.data(),
                                                   mine.out.data(), 8};
        return connection.AllReduce(*group, {buffer}, kFloat32,
                                    ReduceKind::kSum);
      };
      MTF_RETURN_IF_ERROR(connection.RunOrReplay(work, mine.replay));
      MTF_RETURN_IF_ERROR(connection.Synchronize());
      mine.counts = connection.counts();
      return absl::OkStatus();
    }));
    for (size_t rank = 0; rank < loops.size(); ++rank) {
      const size_t first = rank / 2 * 2;
      EXPECT_EQ(loops[rank].out[7],
                static_cast<float>(2 * first + 1) + 20 * step)
          << "rank " << rank << " in step " << step;
      ASSERT_EQ(loops[rank].counts.size(), 1u);
      EXPECT_EQ(loops[rank].counts.begin()->second.calls, 1);
      EXPECT_EQ(loops[rank].counts.begin()->second.bytes, 32);
      // Once to run, once to record.
      EXPECT_EQ(loops[rank].enqueued, std::min(step + 1, 2));
    }
  }
}

TEST(Loopback, FailureDuringARecordingLeavesTheStreamRunning) {
  Virtual devices("x:2");
  std::vector<Loop> loops(2);
  const auto run = [&](int64_t failing) {
    return devices.Run([&, failing](Connection& connection) -> absl::Status {
      Loop& mine = loops[connection.rank()];
      MTF_ASSIGN_OR_RETURN(const auto* group, connection.GroupOver({0}));
      mine.in.assign(8, 1.0f);
      const auto work = [&]() -> absl::Status {
        if (connection.rank() == failing) {
          return absl::ResourceExhaustedError("the reason");
        }
        const Communicator::ReduceBuffer buffer = {mine.in.data(),
                                                   mine.out.data(), 8};
        return connection.AllReduce(*group, {buffer}, kFloat32,
                                    ReduceKind::kSum);
      };
      MTF_RETURN_IF_ERROR(connection.RunOrReplay(work, mine.replay));
      return connection.Synchronize();
    });
  };
  for (int64_t failing : {0, 1}) {
    for (Loop& loop : loops) loop.replay = nullptr;
    EXPECT_OK(run(-1));
    EXPECT_THAT(run(failing),
                StatusIs(absl::StatusCode::kResourceExhausted, "the reason"));
    for (int again = 0; again < 3; ++again) {
      for (Loop& loop : loops) loop.out.assign(8, 0.0f);
      EXPECT_OK(run(-1));
      EXPECT_EQ(loops[0].out[3], 2.0f);
      EXPECT_EQ(loops[1].out[3], 2.0f);
    }
  }
}

// A100, H100 and B200.
class LoopbackKernelsFor : public ::testing::TestWithParam<int> {};

TEST_P(LoopbackKernelsFor, Compile) {
  if (GetParam() != 90)
    SKIP_UNLESS_THOROUGH("one generation of GPUs is compiled for");
  const auto tried = CompileForGpu(
      {"nothing", "extern \"C\" __global__ void nothing() {}\n"}, GetParam());
  if (!tried.ok()) GTEST_SKIP() << tried.status().message();
  const auto compile = [&](const LoopbackCall& call, int pack) {
    EXPECT_OK(CompileForGpu(LoopbackSource(call, pack), GetParam()))
        << LoopbackSource(call, pack).text;
  };
  LoopbackCall call;
  for (const int ranks : {2, 8}) {
    call.in.resize(ranks);
    call.out.resize(ranks);
    for (const CollectiveKind kind :
         {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter}) {
      call.kind = kind;
      for (const DType dtype :
           {kFloat32, kBFloat16, kFloat16, kInt32, kInt64, kBool}) {
        call.dtype = dtype;
        call.reduce = ranks == 2 ? ReduceKind::kMax : ReduceKind::kSum;
        compile(call, static_cast<int>(16 / DTypeSize(dtype)));
      }
      call.reduce = ReduceKind::kMin;
      compile(call, 1);
    }
    for (const CollectiveKind kind :
         {CollectiveKind::kAllGather, CollectiveKind::kAllToAll,
          CollectiveKind::kCollectivePermute}) {
      call.kind = kind;
      for (const int word : {1, 2, 4, 8, 16}) compile(call, word);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, LoopbackKernelsFor,
                         ::testing::Values(80, 90, 100), [](const auto& info) {
                           return absl::StrCat("sm_", info.param);
                         });

TEST(LoopbackKernels, SixteenBitFloatsAreSummedInRankOrderAndRoundedOnce) {
  LoopbackCall call;
  call.kind = CollectiveKind::kAllReduce;
  call.dtype = kBFloat16;
  call.in.resize(3);
  call.out.resize(3);
  const std::string text = LoopbackSource(call, 8).text;
  EXPECT_EQ(text.substr(0, BasicText().size()), BasicText());
  EXPECT_EQ(text.substr(BasicText().size()), R"(
constexpr int kRanks = 3;
typedef BF16 Element;
struct Pointers {
  const Element* in[kRanks];
  Element* out[kRanks];
};

template <int n>
__device__ inline Pack<Element, n>& At(Element* p, i64 i) {
  return ((Pack<Element, n>*)p)[i];
}
template <int n>
__device__ inline const Pack<Element, n>& At(const Element* p, i64 i) {
  return ((const Pack<Element, n>*)p)[i];
}
// In rank order, rounded once.
template <int n>
__device__ inline Pack<Element, n> Combined(const Pointers& p, i64 i) {
  F total[n];
  const Pack<Element, n> first = At<n>(p.in[0], i);
  for (int j = 0; j < n; ++j) total[j] = Value(first.at[j]);
#pragma unroll
  for (int q = 1; q < kRanks; ++q) {
    const Pack<Element, n> next = At<n>(p.in[q], i);
    for (int j = 0; j < n; ++j) {
      const auto x = total[j], y = F(Value(next.at[j]));
      total[j] = x + y;
    }
  }
  Pack<Element, n> result;
  for (int j = 0; j < n; ++j) Put(result.at[j], total[j]);
  return result;
}

template <int n>
__device__ inline void Move(const Pointers& p, i64 packs, i64 i) {
  const Pack<Element, n> result = Combined<n>(p, i);
#pragma unroll
  for (int q = 0; q < kRanks; ++q) At<n>(p.out[q], i) = result;
}
extern "C" __global__ void all_reduce(const Element* in0, Element* out0, const Element* in1, Element* out1, const Element* in2, Element* out2, i64 count) {
  const Pointers p = {{in0, in1, in2}, {out0, out1, out2}};
  const i64 first = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  const i64 stride = (i64)gridDim.x * blockDim.x;
  for (i64 i = first; i < count / 8; i += stride) Move<8>(p, count / 8, i);
  for (i64 i = count / 8 * 8 + first; i < count; i += stride) Move<1>(p, count, i);
}
)");
}

}  // namespace
}  // namespace mtf::cuda
