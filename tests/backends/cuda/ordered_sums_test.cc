// SPDX-License-Identifier: Apache-2.0
//
// Replicas reduced by different groups are bitwise equal, over a library that
// adds in another order in each group; and maxima propagate NaN, which the
// library drops.
#include "backends/cuda/communicators/ordered_sums.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/communicators/reduce_in_order.h"
#include "backends/cuda/communicators/nccl.h"
#include "backends/cuda/device.h"
#include "backends/cuda/library.h"
#include "backends/executor/executor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/passes/plan_buffers.h"
#include "mtf/check.h"
#include "mtf/host_tensor.h"
#include "mtf/status.h"
#include "tests/backends/cuda/fake_nccl.h"
#include "tests/backends/cuda/text_runtime.h"
#include "tests/backends/fused_for.h"
#include "tests/matchers.h"
#include "tests/program_text.h"

namespace mtf::cuda {
namespace {

using Bytes = std::vector<char>;

struct SumCase {
  DType dtype;
  ReduceKind kind;
  std::vector<int64_t> counts;
  std::string mesh = "x:3,y:2";  // reduced over x
  int64_t ranks() const { return Mesh::Parse(mesh)->axis_size(0); }
  friend std::ostream& operator<<(std::ostream& out, const SumCase& c) {
    return out << DTypeName(c.dtype)
               << (c.kind == ReduceKind::kSum   ? " sum"
                   : c.kind == ReduceKind::kMax ? " max"
                                                : " min")
               << " on " << c.mesh << " of "
               << ::testing::PrintToString(c.counts);
  }
};

// Numbers whose sum depends on the order, and zeros of both signs.
Bytes Numbers(DType dtype, int64_t count, int rank) {
  const double numbers[] = {1.0 / 3, 3e4 / 7, -3e4 / 11, 1.0 / 3000,
                            -0.0,    2.0 / 7, 900.0 / 13};
  Bytes bytes(count * DTypeSize(dtype));
  for (int64_t i = 0; i < count; ++i) {
    StoreElement(bytes.data(), dtype, i, numbers[(i * 5 + rank * 3) % 7]);
  }
  return bytes;
}

// All pairs of values with special comparisons.
Bytes OddNumbers(DType dtype, int64_t count, int rank) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double numbers[] = {std::nan(""), 0.0, -0.0, infinity,
                            -infinity,    1,   -2};
  Bytes bytes(count * DTypeSize(dtype));
  int64_t divisor = 1;
  for (int i = 0; i < rank; ++i) divisor *= 7;
  for (int64_t i = 0; i < count; ++i) {
    StoreElement(bytes.data(), dtype, i, numbers[i / divisor % 7]);
  }
  return bytes;
}

// Ranks with the same y reduce; those with the same x hold replicas.
class Replicas : public ::testing::TestWithParam<SumCase> {
 protected:
  virtual Bytes Given(DType dtype, int64_t count, int rank) const {
    return Numbers(dtype, count, rank);
  }

  // The result of every rank.
  absl::StatusOr<std::vector<Bytes>> AllReduce(bool replicated_outside) {
    return Run([&](Connection& connection) -> absl::StatusOr<Bytes> {
      const SumCase& c = GetParam();
      MTF_ASSIGN_OR_RETURN(const Communicator::Group* group,
                           connection.GroupOver({0}, replicated_outside));
      std::vector<Bytes> ins, outs;
      std::vector<Communicator::ReduceBuffer> buffers;
      int64_t largest = 0;
      for (int64_t count : c.counts) {
        ins.push_back(Given(c.dtype, count, group->index));
        outs.emplace_back(ins.back().size());
        largest = std::max(largest, count);
      }
      for (size_t i = 0; i < ins.size(); ++i) {
        // The last one is in place.
        const bool in_place = i + 1 == ins.size();
        buffers.push_back({ins[i].data(),
                           in_place ? ins[i].data() : outs[i].data(),
                           c.counts[i]});
      }
      MTF_RETURN_IF_ERROR(connection.PrepareCollective(
          CollectiveKind::kAllReduce, *group, largest, c.dtype, c.kind));
      MTF_RETURN_IF_ERROR(
          connection.AllReduce(*group, buffers, c.dtype, c.kind));
      Bytes all;
      for (size_t i = 0; i < ins.size(); ++i) {
        const Bytes& out = i + 1 == ins.size() ? ins[i] : outs[i];
        all.insert(all.end(), out.begin(), out.end());
      }
      return all;
    });
  }

  absl::StatusOr<std::vector<Bytes>> ReduceScatter(bool replicated_outside) {
    return Run([&](Connection& connection) -> absl::StatusOr<Bytes> {
      const SumCase& c = GetParam();
      MTF_ASSIGN_OR_RETURN(const Communicator::Group* group,
                           connection.GroupOver({0}, replicated_outside));
      const int64_t count = c.counts[0];
      const Bytes in = Given(c.dtype, count * c.ranks(), group->index);
      Bytes out(count * DTypeSize(c.dtype));
      MTF_RETURN_IF_ERROR(connection.PrepareCollective(
          CollectiveKind::kReduceScatter, *group, count, c.dtype, c.kind));
      MTF_RETURN_IF_ERROR(connection.ReduceScatter(
          *group, in.data(), out.data(), count, c.dtype, c.kind));
      return out;
    });
  }

  // The sum in rank order.
  Bytes Wanted(int64_t count) const {
    const SumCase& c = GetParam();
    std::vector<Bytes> all;
    std::vector<const void*> sources;
    for (int rank = 0; rank < c.ranks(); ++rank) {
      all.push_back(Given(c.dtype, count, rank));
    }
    for (const Bytes& one : all) sources.push_back(one.data());
    Bytes wanted(count * DTypeSize(c.dtype));
    ReduceInOrder(c.dtype, c.kind, sources, wanted.data(), count);
    return wanted;
  }

 private:
  absl::StatusOr<std::vector<Bytes>> Run(
      const std::function<absl::StatusOr<Bytes>(Connection&)>& body) {
    testing::FakeFabric fabric;
    fabric.own_orders = true;
    const Mesh mesh = *Mesh::Parse(GetParam().mesh);
    std::vector<Bytes> results(mesh.num_devices());
    const absl::Status status =
        LocalRanks(mesh).Run([&](Communicator& host) -> absl::Status {
          const auto rank = static_cast<int>(host.rank());
          MTF_ASSIGN_OR_RETURN(
              const std::unique_ptr<Connection> connection,
              ConnectNccl(testing::MakeFakeGpu(fabric, rank,
                                               absl::StrCat("GPU-", rank)),
                          host));
          MTF_ASSIGN_OR_RETURN(results[rank], body(*connection));
          return absl::OkStatus();
        });
    if (!status.ok()) return status;
    return results;
  }
};

TEST_P(Replicas, OfAllReduceAreSumsInRankOrder) {
  const auto results = AllReduce(/*replicated_outside=*/true);
  ASSERT_OK(results);
  Bytes wanted;
  for (int64_t count : GetParam().counts) {
    const Bytes part = Wanted(count);
    wanted.insert(wanted.end(), part.begin(), part.end());
  }
  for (const Bytes& result : *results) EXPECT_TRUE(result == wanted);
}

TEST_P(Replicas, OfReduceScatterAreSumsInRankOrder) {
  const auto results = ReduceScatter(/*replicated_outside=*/true);
  ASSERT_OK(results);
  const Bytes wanted = Wanted(GetParam().counts[0] * 3);
  const size_t bytes = wanted.size() / 3;
  for (int rank = 0; rank < 6; ++rank) {
    const Bytes part(wanted.begin() + (rank / 2) * bytes,
                     wanted.begin() + (rank / 2 + 1) * bytes);
    EXPECT_TRUE((*results)[rank] == part) << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sums, Replicas,
    ::testing::Values(SumCase{kFloat32, ReduceKind::kSum, {5}},
                      SumCase{kFloat32, ReduceKind::kSum, {0}},
                      SumCase{kFloat32, ReduceKind::kSum, {12, 0, 1, 7}},
                      // Even and uneven shards.
                      SumCase{kFloat32, ReduceKind::kSum, {30000}},
                      SumCase{kFloat32, ReduceKind::kSum, {30001}},
                      SumCase{kBFloat16, ReduceKind::kSum, {20003, 6, 40000}},
                      // More than one batch.
                      SumCase{kFloat32, ReduceKind::kSum, {700000, 700001, 3}},
                      SumCase{kFloat16, ReduceKind::kSum, {33}},
                      SumCase{kFloat32, ReduceKind::kMax, {50000}},
                      // Sums of integers do not depend on the order.
                      SumCase{kInt32, ReduceKind::kSum, {17, 20000}}));

class Extremes : public Replicas {
 protected:
  Bytes Given(DType dtype, int64_t count, int rank) const override {
    return OddNumbers(dtype, count, rank);
  }
};

// With or without replicas: the bits are those of every other device.
TEST_P(Extremes, OfAllReducePropagateNaN) {
  for (bool replicated_outside : {false, true}) {
    const auto results = AllReduce(replicated_outside);
    ASSERT_OK(results);
    Bytes wanted;
    for (int64_t count : GetParam().counts) {
      const Bytes part = Wanted(count);
      wanted.insert(wanted.end(), part.begin(), part.end());
    }
    const DType dtype = GetParam().dtype;
    ASSERT_TRUE(std::isnan(LoadElement(wanted.data(), dtype, 0)));
    ASSERT_TRUE(std::isnan(LoadElement(wanted.data(), dtype, 1)));
    for (const Bytes& result : *results) EXPECT_TRUE(result == wanted);
  }
}

TEST_P(Extremes, OfReduceScatterPropagateNaN) {
  const auto results = ReduceScatter(/*replicated_outside=*/false);
  ASSERT_OK(results);
  const int64_t ranks = GetParam().ranks();
  const Bytes wanted = Wanted(GetParam().counts[0] * ranks);
  const size_t bytes = wanted.size() / ranks;
  const int64_t replicas = static_cast<int64_t>(results->size()) / ranks;
  for (size_t rank = 0; rank < results->size(); ++rank) {
    const auto begin = wanted.begin() + (rank / replicas) * bytes;
    EXPECT_TRUE((*results)[rank] == Bytes(begin, begin + bytes)) << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Reductions, Extremes,
    ::testing::Values(SumCase{kFloat32, ReduceKind::kMax, {343}},
                      SumCase{kFloat32, ReduceKind::kMin, {343}},
                      SumCase{kFloat32, ReduceKind::kMax, {49}, "x:2"},
                      SumCase{kBFloat16, ReduceKind::kMax, {343, 49, 7}},
                      SumCase{kBFloat16, ReduceKind::kMin, {20003}, "x:2"},
                      SumCase{kFloat16, ReduceKind::kMin, {343}, "x:3"},
                      SumCase{kFloat32, ReduceKind::kMax, {30001}, "x:2,y:2"}));

TEST(OrderedSums, OfEveryDTypeCompileForGpus) {
  const auto tried = CompileForGpu(
      {"nothing", "extern \"C\" __global__ void nothing() {}\n"}, 90);
  if (!tried.ok()) GTEST_SKIP() << tried.status().message();
  TextRuntime runtime;
  OrderedSums sums(runtime);
  for (DType dtype : {kFloat32, kBFloat16, kFloat16}) {
    for (ReduceKind kind :
         {ReduceKind::kSum, ReduceKind::kMax, ReduceKind::kMin}) {
      ASSERT_OK(sums.Prepare(CollectiveKind::kAllReduce, 2, 10, dtype, kind));
    }
  }
  EXPECT_EQ(runtime.kernels().size(), 18u);
  for (const auto& [name, text] : runtime.kernels()) {
    EXPECT_OK(CompileForGpu({name, text}, 90)) << text;
  }
}

class Order : public Replicas {};

// Shows that the tests above can fail: a library that reduces by itself gives
// replicas that differ.
TEST_P(Order, DiffersIfTheLibraryReduces) {
  const auto results = AllReduce(/*replicated_outside=*/false);
  ASSERT_OK(results);
  EXPECT_FALSE((*results)[0] == (*results)[1]);
  const auto parts = ReduceScatter(/*replicated_outside=*/false);
  ASSERT_OK(parts);
  EXPECT_FALSE((*parts)[0] == (*parts)[1]);
}

INSTANTIATE_TEST_SUITE_P(Sums, Order,
                         ::testing::Values(SumCase{
                             kFloat32, ReduceKind::kSum, {100}}));

// The results of a step in which rank r's rows of x are multiples of r's input.
absl::StatusOr<std::vector<Bytes>> RunStep(const std::string& text) {
  MTF_ASSIGN_OR_RETURN(Program program, mtf::testing::ParseText(text));
  MTF_RETURN_IF_ERROR(PlanBuffers(program));
  HostTensor x(program.values[0].shape, kFloat32);
  const Bytes numbers = Numbers(kFloat32, x.num_elements(), 0);
  std::copy(numbers.begin(), numbers.end(), static_cast<char*>(x.data()));
  testing::FakeFabric fabric;
  fabric.own_orders = true;
  std::vector<Bytes> results(program.mesh.num_devices());
  MTF_RETURN_IF_ERROR(
      LocalRanks(program.mesh).Run([&](Communicator& host) -> absl::Status {
        const auto rank = static_cast<int>(host.rank());
        const std::shared_ptr<Runtime> gpu =
            testing::MakeFakeGpu(fabric, rank, absl::StrCat("GPU-", rank));
        const std::unique_ptr<Device> device = CreateDeviceOver(gpu, "fake");
        MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Connection> connection,
                             ConnectNccl(gpu, host));
        VariableStore variables(*device);
        const Program fused = mtf::testing::FusedFor(*device, program);
        MTF_ASSIGN_OR_RETURN(
            const std::unique_ptr<Executor> executor,
            Executor::Create(fused, *device, *connection, variables));
        std::map<std::string, HostTensor> outputs;
        MTF_RETURN_IF_ERROR(executor->Run({{"x", x}}, 0, 0, &outputs));
        const HostTensor& y = outputs.at("y");
        const char* const data = static_cast<const char*>(y.data());
        results[rank].assign(data, data + y.num_elements() * 4);
        return absl::OkStatus();
      }));
  return results;
}

// The axis "model" neither shards %y nor is reduced: its ranks hold replicas.
TEST(OrderedSums, AreUsedByAStepForReplicas) {
  const auto results = RunStep(R"(mesh{data:3, model:2}
%x : f32[b:6/data=2, c:80] = input x
%s : f32[c:80] unreduced{data} = reduce(%x) sum
%y : f32[c:80] = all_reduce(%s) sum over{data}
output(%y) y
)");
  ASSERT_OK(results);
  for (const Bytes& result : *results) {
    EXPECT_TRUE(result == results->front());
  }
}

TEST(OrderedSums, AreUsedByAStepForReplicasOfShards) {
  const auto results = RunStep(R"(mesh{data:3, model:2}
%x : f32[b:6/data=2, c:90] = input x
%s : f32[c:90] unreduced{data} = reduce(%x) sum
%r : f32[c:90/data=30] = reduce_scatter(%s) sum c over{data}
%y : f32[c:90] = all_gather(%r) c over{data}
output(%y) y
)");
  ASSERT_OK(results);
  for (const Bytes& result : *results) {
    EXPECT_TRUE(result == results->front());
  }
}

}  // namespace
}  // namespace mtf::cuda
