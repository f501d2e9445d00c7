// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
// Build: -O1 (most of the time is spent in its own loops)
//
// A result depends on the valid elements of the operands only. Every kernel of
// every device runs with different garbage in padding, around all buffers, in
// scratch memory and in the result, and must give the same bits; those of
// elementwise instructions are also the same on every shard.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "lowering/program/attention_size.h"
#include "tests/backends/conformance/device_case.h"
#include "tests/backends/conformance/kernel_cases.h"
#include "tests/backends/garbage.h"
#include "tests/backends/garbage/kernel_scratch.h"
#include "tests/matchers.h"
#include "tests/repeats.h"
#include "tests/requirements.h"

namespace mtf::testing {
namespace {

using Names = std::vector<std::string>;

bool Contains(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Whether each element is data: not padding, except along `padding`.
std::vector<bool> DefinedElements(const LocalTensor& tensor,
                                  const Names& padding) {
  std::vector<bool> defined;
  ForEachElement(tensor.shape, tensor.dims, [&](const Coordinates& here) {
    bool is_data = true;
    for (int i = 0; i < tensor.shape.rank(); ++i) {
      const std::string& name = tensor.shape[i].name;
      is_data = is_data && (here.at(name) < tensor.dims[i].valid ||
                            Contains(padding, name));
    }
    defined.push_back(is_data);
  });
  return defined;
}

// A tensor in device memory with garbage before and after it.
class SurroundedTensor {
 public:
  // `padding` names the dimensions whose padding is data.
  SurroundedTensor(Device& device, const LocalTensor& tensor,
                   const Names& padding)
      : device_(device),
        tensor_(tensor),
        defined_(DefinedElements(tensor, padding)),
        size_(DTypeSize(tensor.dtype)),
        bytes_(tensor.elements() * size_) {
    absl::StatusOr<void*> memory = device.Allocate(bytes_ + 2 * kAround);
    EXPECT_OK(memory);
    memory_ = static_cast<char*>(*memory);
  }
  ~SurroundedTensor() { device_.Free(memory_); }
  SurroundedTensor(const SurroundedTensor&) = delete;
  SurroundedTensor& operator=(const SurroundedTensor&) = delete;

  void* data() const { return memory_ + kAround; }

  // Writes garbage everywhere; if `with_data`, also the data.
  void Fill(Garbage garbage, uint64_t seed, bool with_data) {
    written_ = GarbageBytes(garbage, tensor_.dtype, bytes_ + 2 * kAround, seed);
    for (size_t i = 0; with_data && i < defined_.size(); ++i) {
      if (!defined_[i]) continue;
      StoreElement(written_.data() + kAround, tensor_.dtype,
                   static_cast<int64_t>(i), tensor_.values[i]);
    }
    EXPECT_OK(device_.CopyToDevice(memory_, written_.data(),
                                   static_cast<int64_t>(written_.size())));
  }

  // Checks that nothing around the tensor has changed.
  void Read(std::vector<char>& now) const {
    now.resize(written_.size());
    EXPECT_OK(device_.CopyToHost(now.data(), memory_,
                                 static_cast<int64_t>(now.size())));
    EXPECT_EQ(0, std::memcmp(now.data(), written_.data(), kAround))
        << "written before the buffer";
    EXPECT_EQ(0, std::memcmp(now.data() + kAround + bytes_,
                             written_.data() + kAround + bytes_, kAround))
        << "written past the end of the buffer";
  }
  void ExpectUnchanged() const {
    std::vector<char> now;
    Read(now);
    EXPECT_TRUE(now == written_) << "an operand has changed";
  }
  // The bits of the data; garbage is zero.
  std::vector<char> Data() const {
    std::vector<char> now;
    Read(now);
    now.erase(now.begin(), now.begin() + kAround);
    now.resize(bytes_);
    for (size_t i = 0; i < defined_.size(); ++i) {
      if (!defined_[i]) std::memset(now.data() + i * size_, 0, size_);
    }
    return now;
  }

 private:
  // A multiple of the alignment of buffers.
  static constexpr int64_t kAround = 1024;
  Device& device_;
  LocalTensor tensor_;
  std::vector<bool> defined_;
  int64_t size_, bytes_;
  char* memory_ = nullptr;
  std::vector<char> written_;
};

// What a run gives: the data of each result, and the first error.
struct Outcome {
  std::vector<std::vector<char>> results;
  StepError error;
};

// A case bound to memory of its own.
class PreparedCase {
 public:
  PreparedCase(Device& device, KernelScratch& scratch, const KernelCase& made,
               const DeviceCase& test)
      : device_(device), scratch_(scratch), test_(test) {
    std::vector<void*> operand_data, result_data;
    for (const LocalTensor& operand : test_.operands) {
      operands_.push_back(std::make_unique<SurroundedTensor>(
          device, operand, made.read_padding));
      operand_data.push_back(operands_.back()->data());
    }
    std::vector<LocalTensor> results = {test_.result};
    results.insert(results.end(), test_.more_results.begin(),
                   test_.more_results.end());
    for (const LocalTensor& result : results) {
      results_.push_back(std::make_unique<SurroundedTensor>(
          device, result, made.written_padding));
      result_data.push_back(results_.back()->data());
    }
    if (test_.in_place) result_data[0] = operand_data[0];
    bound_ = test_.Bind(operand_data, result_data);
    auto kernel =
        scratch.Watch([&] { return device.Prepare(bound_->binding); });
    EXPECT_OK(kernel);
    if (kernel.ok()) kernel_ = *std::move(kernel);
  }

  Outcome Run(Garbage garbage) {
    if (kernel_ == nullptr) return {};
    uint64_t seed = 0;
    for (auto& operand : operands_) operand->Fill(garbage, ++seed, true);
    for (auto& result : results_) result->Fill(garbage, ++seed, false);
    StepContext context = test_.context;
    EXPECT_OK(device_.BeginStep(context));
    EXPECT_OK(scratch_.Fill(device_, garbage));
    kernel_->Run(context);
    EXPECT_OK(device_.Finish(context));
    Outcome outcome;
    outcome.error = context.error;
    for (size_t i = 0; i < results_.size(); ++i) {
      outcome.results.push_back(results_[i]->Data());
    }
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (i > 0 || !test_.in_place) {
        operands_[i]->ExpectUnchanged();
        continue;
      }
      // The result is in the memory of the operand, with the same padding.
      outcome.results[0] = operands_[0]->Data();
    }
    return outcome;
  }

 private:
  Device& device_;
  KernelScratch& scratch_;
  DeviceCase test_;
  std::vector<std::unique_ptr<SurroundedTensor>> operands_, results_;
  std::unique_ptr<BoundCase> bound_;
  std::unique_ptr<Kernel> kernel_;
};

// The first element that differs, or "".
std::string Difference(const LocalTensor& tensor, const std::vector<char>& want,
                       const std::vector<char>& got) {
  if (want == got) return "";
  const size_t size = DTypeSize(tensor.dtype);
  size_t i = 0;
  while (std::equal(want.begin() + i * size, want.begin() + (i + 1) * size,
                    got.begin() + i * size)) {
    ++i;
  }
  std::ostringstream text;
  text << "element " << i << " is "
       << LoadElement(got.data(), tensor.dtype, static_cast<int64_t>(i))
       << ", not "
       << LoadElement(want.data(), tensor.dtype, static_cast<int64_t>(i));
  return text.str();
}

// The part of a result of the unsharded case that `shard` holds, in its
// memory layout, with zeros for padding.
std::vector<char> PartOf(const LocalTensor& whole,
                         const std::vector<char>& bits,
                         const LocalTensor& shard) {
  const int64_t size = DTypeSize(shard.dtype);
  std::vector<char> part(shard.elements() * size);
  int64_t to = 0;
  ForEachElement(shard.shape, shard.dims, [&](const Coordinates& here) {
    int64_t from = 0;
    bool valid = true;
    for (int i = 0; i < shard.shape.rank(); ++i) {
      const ShardedDimension& dim = shard.dims[i];
      const int64_t at = here.at(shard.shape[i].name);
      valid = valid && at < dim.valid;
      from = from * whole.dims[i].extent + dim.offset + at;
    }
    if (valid) {
      std::memcpy(part.data() + to * size, bits.data() + from * size, size);
    }
    ++to;
  });
  return part;
}

class GarbageTest
    : public ::testing::TestWithParam<std::tuple<std::string, Opcode>> {
 protected:
  void TearDown() override { StopFillingHeap(); }
};

std::string NameOfCase(
    const ::testing::TestParamInfo<std::tuple<std::string, Opcode>>& info) {
  return std::get<0>(info.param) + "_" +
         std::string(OpcodeName(std::get<1>(info.param)));
}

std::vector<Opcode> AllOpcodes() {
  std::vector<Opcode> all;
  for (int i = 0; i < kNumOpcodes; ++i) all.push_back(static_cast<Opcode>(i));
  return all;
}

INSTANTIATE_TEST_SUITE_P(Devices, GarbageTest,
                         ::testing::Combine(::testing::ValuesIn(DeviceNames()),
                                            ::testing::ValuesIn(AllOpcodes())),
                         NameOfCase);

void ExpectSameOutcome(const DeviceCase& test, const Outcome& want,
                       const Outcome& got) {
  EXPECT_EQ(got.error.instruction, want.error.instruction);
  ASSERT_EQ(got.results.size(), want.results.size());
  for (size_t i = 0; i < want.results.size(); ++i) {
    const LocalTensor& result = i == 0 ? test.result : test.more_results[i - 1];
    EXPECT_EQ(Difference(result, want.results[i], got.results[i]), "");
  }
}

TEST_P(GarbageTest, ResultsDependOnTheirElementsOnly) {
  const auto& [name, opcode] = GetParam();
  if (name == "cuda_emulated") SKIP_UNDER_SANITIZERS("many kernels");
  if (name == "reference" && opcode == Opcode::kEinsum) {
    SKIP_UNDER_SANITIZERS("large loops");
  }
  auto device = CreateDeviceWithVisibleScratch(name);
  ASSERT_OK(device);
  KernelScratch scratch;
  const AttentionSupport attention = (*device)->attention();
  if (IsAttention(opcode) && attention == AttentionSupport::kFusedKernels) {
    GTEST_SKIP() << "tested by tests/backends/cuda/group_garbage_test.cc";
  }
  const bool is_lowered_away =
      IsAttention(opcode) && attention == AttentionSupport::kNone;
  const std::vector<KernelCase> cases =
      is_lowered_away ? std::vector<KernelCase>() : KernelCasesOf(opcode);
  if (cases.empty()) {
    // The executor runs it; a device that has a kernel for it needs cases.
    BoundCase none;
    none.program.instructions.push_back(Instruction(opcode));
    none.binding.program = &none.program;
    EXPECT_EQ((*device)->Prepare(none.binding).status().code(),
              absl::StatusCode::kUnimplemented);
    return;
  }
  // All are prepared before the first runs, so that a device may compile many
  // kernels at once.
  std::vector<std::vector<std::unique_ptr<PreparedCase>>> prepared;
  for (const KernelCase& made : cases) {
    SCOPED_TRACE(made.name);
    prepared.emplace_back();
    prepared.back().push_back(
        std::make_unique<PreparedCase>(**device, scratch, made, made.test));
    for (const DeviceCase& shard : made.shards) {
      prepared.back().push_back(
          std::make_unique<PreparedCase>(**device, scratch, made, shard));
    }
  }
  std::vector<Outcome> wanted(cases.size());
  const absl::Span<const Garbage> all = kAllGarbage;
  for (Garbage garbage : all.first(Repeats(all.size(), 2))) {
    for (size_t i = 0; i < cases.size(); ++i) {
      SCOPED_TRACE(cases[i].name + " with " + NameOf(garbage));
      const Outcome outcome = prepared[i][0]->Run(garbage);
      if (garbage == kAllGarbage[0]) wanted[i] = outcome;
      ExpectSameOutcome(cases[i].test, wanted[i], outcome);
      for (size_t s = 0; s < cases[i].shards.size(); ++s) {
        SCOPED_TRACE("shard " + std::to_string(s));
        const DeviceCase& shard = cases[i].shards[s];
        Outcome part = wanted[i];
        part.results[0] =
            PartOf(cases[i].test.result, wanted[i].results[0], shard.result);
        ExpectSameOutcome(shard, part, prepared[i][s + 1]->Run(garbage));
      }
    }
    if (HasFailure()) return;  // other garbage fails in the same way
  }
}

}  // namespace
}  // namespace mtf::testing
