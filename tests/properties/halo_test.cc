// SPDX-License-Identifier: Apache-2.0
//
// Windows and other movement along sharded dimensions: exhaustive over small
// sizes, windows, strides, dilations and meshes. Values and gradients are those
// of the oracle, which tests/ops compares with loops and finite differences;
// bytes are those of a formula, and those that the communicator counts.
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/backend.h"
#include "backends/executor/executor.h"
#include "backends/reference/interpreter.h"
#include "lowering/lower.h"
#include "lowering/parse_program.h"
#include "lowering/program/count_costs.h"
#include "lowering/program/print_program.h"
#include "ops/concat.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/pad.h"
#include "ops/reduce.h"
#include "ops/shift.h"
#include "ops/slice.h"
#include "ops/windows.h"
#include "tests/matchers.h"
#include "tests/properties/lowered_case.h"
#include "tests/repeats.h"
#include "tests/requirements.h"

namespace mtf::testing {
namespace {

// Programs of many operations on one dimension, each of them fetched.
class HaloProgram {
 public:
  HaloProgram(int64_t size, DType dtype = kFloat32)
      : size_(size), x_(Feed({{"n", size}, {"b", 2}}, dtype)) {}

  Tensor x() const { return x_; }
  int64_t size() const { return size_; }
  Tensor Feed(const Shape &shape, DType dtype = kFloat32) {
    const std::string name = absl::StrCat("x", feeds_.size());
    std::vector<double> numbers(shape.num_elements());
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = static_cast<double>((i * 7 + 3 * feeds_.size()) % 31) - 15;
    }
    feeds_[name] = HostTensor::FromDoubles(shape, dtype, numbers);
    return Input(graph_, name, dtype, shape);
  }
  void Fetch(Tensor y) { fetches_.push_back(y); }
  // Fetches `y` and the gradient of `xs` from it.
  void FetchWithGradients(Tensor y, const std::vector<Tensor> &xs) {
    Fetch(y);
    if (!IsFloat(y.dtype())) return;
    for (const Tensor &dx : Gradients(y, xs, Feed(y.shape(), y.dtype()))) {
      Fetch(dx);
    }
  }

  // Expects the values of the oracle, and the bytes of the plan.
  void ExpectOracleValues(const std::string &device, const std::string &mesh,
                          const std::string &layout) {
    SCOPED_TRACE(absl::StrCat("size ", size_, " mesh ", mesh, " layout ",
                              layout, " on ", device));
    ASSERT_OK(graph_.status());
    const auto wanted = Interpret(graph_, feeds_, fetches_);
    ASSERT_OK(wanted);
    const auto program = Lower(mesh, layout, false);
    ASSERT_OK(program);
    const std::string text = PrintProgram(*program);
    const auto parsed = ParseProgram(text);
    ASSERT_OK(parsed);
    EXPECT_EQ(PrintProgram(*parsed), text);
    EXPECT_OK(RanksOf(program->mesh).Run([&](Communicator &host) {
      return RunAndCompare(device, *program, *wanted, host);
    })) << text;
  }

  absl::StatusOr<Program> Lower(const std::string &mesh_text,
                                const std::string &layout, bool shards) const {
    MTF_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Parse(mesh_text));
    MTF_ASSIGN_OR_RETURN(const LayoutRules rules,
                         LayoutRules::Parse(layout, "test"));
    MTF_ASSIGN_OR_RETURN(const LayoutBinding binding,
                         BindLayout(graph_, mesh, rules));
    return mtf::Lower(graph_, binding,
                      {.fetches = fetches_, .fetch_shards = shards});
  }

 private:
  absl::Status RunAndCompare(const std::string &device_name,
                             const Program &program,
                             const std::vector<OracleTensor> &wanted,
                             Communicator &host) const {
    MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device,
                         CreateDevice(device_name, {.num_threads = 1}));
    MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> connection,
                         device->Connect(host));
    Communicator &communicator = connection != nullptr ? *connection : host;
    VariableStore variables(*device);
    MTF_ASSIGN_OR_RETURN(
        const std::unique_ptr<Executor> executor,
        Executor::Create(program, *device, communicator, variables));
    std::map<std::string, HostTensor> outputs;
    communicator.ResetCounts();
    MTF_RETURN_IF_ERROR(executor->Run(feeds_, 0, 0, &outputs));
    const auto planned = CountCollectives(program);
    if (planned.size() != communicator.counts().size()) {
      return absl::InternalError("other collectives than planned");
    }
    for (const auto &[key, count] : communicator.counts()) {
      const auto plan = planned.find(key);
      if (plan == planned.end() || plan->second.first != count.calls ||
          plan->second.second != count.bytes) {
        return absl::InternalError(absl::StrCat(CollectiveName(key.first), ": ",
                                                count.bytes,
                                                " bytes, not as planned"));
      }
    }
    for (size_t f = 0; f < wanted.size(); ++f) {
      const HostTensor &got = outputs[fetches_[f].name()];
      for (size_t i = 0; i < wanted[f].data.size(); ++i) {
        const double a = wanted[f].data[i],
                     b = *got.At(static_cast<int64_t>(i));
        // Sums of small integers are exact in every dtype.
        if (a == b) continue;
        return absl::InternalError(
            absl::StrCat("rank ", communicator.rank(), " \"",
                         fetches_[f].name(), "\" element ", i, " of [",
                         wanted[f].shape.ToString(), "] is ", b, ", not ", a));
      }
    }
    return absl::OkStatus();
  }

  int64_t size_;
  Graph graph_;
  std::map<std::string, HostTensor> feeds_;
  std::vector<Tensor> fetches_;
  Tensor x_;
};

struct NamedOptions {
  int64_t window;
  WindowOptions options;
  int64_t span() const { return (window - 1) * options.dilation + 1; }
};

// Windows up to `window`, strides and dilations up to 3, every padding.
std::vector<NamedOptions> AllOptions(int64_t size, int64_t most_window) {
  std::vector<NamedOptions> all;
  for (int64_t window = 1; window <= most_window; ++window) {
    for (int64_t stride = 1; stride <= 3; ++stride) {
      for (int64_t dilation = 1; dilation <= 3; ++dilation) {
        NamedOptions same{window, {.stride = stride, .dilation = dilation}};
        all.push_back(same);
        same.options.wrap = true;
        all.push_back(same);
        NamedOptions valid = same;
        valid.options.wrap = false;
        valid.options.padding = WindowPadding::kValid;
        if (valid.span() <= size) all.push_back(valid);
        NamedOptions more = same;
        more.options.padding = WindowPadding::kExplicit;
        more.options.before = window % 3 + stride;
        more.options.after = dilation;
        if (more.span() <= size + more.options.before + dilation) {
          all.push_back(more);
          more.options.wrap = false;
          more.options.fill = 3;
          all.push_back(more);
        }
      }
    }
  }
  return all;
}

struct HaloLayout {
  const char *mesh;
  const char *layout;
};

void PrintTo(const HaloLayout &layout, std::ostream *out) {
  *out << layout.mesh << " " << layout.layout;
}

const HaloLayout kLayouts[] = {
    {"x:2", "n:x"},          {"x:3", "n:x"},       {"x:4", "n:x"},
    {"x:2,y:2", "n:x, b:y"}, {"x:2,y:2", "n:x+y"}, {"x:2,y:2", "n:y+x"},
    {"x:2,y:3", "n:y, b:x"}, {"x:2,y:3", "n:x+y"},
};

class Halos : public ::testing::TestWithParam<HaloLayout> {
 protected:
  // All sizes up to 13, or some.
  std::vector<int64_t> Sizes() const {
    if (!ThoroughTests()) {
      std::vector<int64_t> few = {7, 4, 13, 1};
      few.resize(Repeats(4, 2));
      return few;
    }
    std::vector<int64_t> sizes(13);
    std::iota(sizes.begin(), sizes.end(), 1);
    return sizes;
  }
  void Expect(HaloProgram &program, const std::string &device = "cpu") {
    program.ExpectOracleValues(device, GetParam().mesh, GetParam().layout);
  }
};

// Every window, stride, dilation and padding in one program.
void AddAllWindows(HaloProgram &program, int64_t most_window) {
  for (const NamedOptions &each : AllOptions(program.size(), most_window)) {
    const Dimension w{absl::StrCat("w", each.window), each.window};
    const Tensor y = Windows(program.x(), "n", w, each.options);
    program.FetchWithGradients(y, {program.x()});
    WindowOptions options = each.options;
    options.fill = 0;
    const Tensor in_windows = program.Feed(y.shape());
    program.FetchWithGradients(
        FoldWindows(in_windows, "n", w.name, program.size(), options),
        {in_windows});
  }
}

TEST_P(Halos, OfEveryWindow) {
  for (int64_t size : Sizes()) {
    HaloProgram program(size);
    AddAllWindows(program, Repeats(5, 2));
    Expect(program);
  }
}

TEST_P(Halos, OfWindowsOnTheReferenceDevice) {
  HaloProgram program(ThoroughTests() ? 13 : 5);
  AddAllWindows(program, ThoroughTests() ? 5 : 2);
  Expect(program, "reference");
}

// Windows along each dimension of windows, also of those that other windows lie
// between.
void AddWindowsOfWindows(HaloProgram &program) {
  const WindowOptions every[] = {
      {},
      {.stride = 2, .dilation = 2},
      {.padding = WindowPadding::kValid},
      {.padding = WindowPadding::kExplicit, .before = 2, .after = 1},
      {.stride = 2, .wrap = true}};
  for (const WindowOptions &first : every) {
    for (const WindowOptions &second : every) {
      const Tensor x = program.x();
      const Tensor inner = Windows(x, "n", {"w", 3}, first);
      for (const char *dim : {"n", "w", "b"}) {
        const Tensor outer = Windows(inner, dim, {"v", 2}, second);
        program.FetchWithGradients(outer, {x});
        program.FetchWithGradients(
            Windows(Windows(inner, "b", {"u", 2}), dim, {"v", 2}, second), {x});
      }
    }
  }
}

TEST_P(Halos, OfWindowsOfWindows) {
  HaloProgram program(5);
  AddWindowsOfWindows(program);
  Expect(program);
  Expect(program, "reference");
}

// Few: each compiles its kernels.
TEST_P(Halos, OfWindowsOnTheEmulatedGpu) {
  HaloProgram program(7);
  const std::vector<NamedOptions> all = AllOptions(7, 3);
  for (size_t i = 0; i < all.size(); i += ThoroughTests() ? 3 : 17) {
    const Dimension w{absl::StrCat("w", all[i].window), all[i].window};
    program.FetchWithGradients(Windows(program.x(), "n", w, all[i].options),
                               {program.x()});
  }
  const Tensor y = program.Feed({{"n", 5}, {"b", 2}});
  program.FetchWithGradients(Concat({program.x(), y}, "n"), {program.x(), y});
  program.FetchWithGradients(Shift(program.x(), "n", 3, true), {program.x()});
  program.FetchWithGradients(Slice(program.x(), "n", 2, 4), {program.x()});
  program.FetchWithGradients(Pad(program.x(), "n", 2, 3, 5), {program.x()});
  Expect(program, "cuda_emulated");
}

void AddAllMovement(HaloProgram &program) {
  const int64_t size = program.size();
  const Tensor x = program.x();
  for (const bool wrap : {false, true}) {
    for (int64_t offset = -size - 1; offset <= size + 1; ++offset) {
      program.FetchWithGradients(Shift(x, "n", offset, wrap), {x});
    }
  }
  for (int64_t begin = 0; begin <= size; ++begin) {
    for (int64_t count = 0; count <= size - begin; ++count) {
      program.FetchWithGradients(Slice(x, "n", begin, count), {x});
    }
  }
  for (int64_t before : {0, 1, 2, 5}) {
    for (int64_t after : {0, 1, 3, 8}) {
      program.FetchWithGradients(Pad(x, "n", before, after, 2), {x});
    }
  }
  for (int64_t other = 0; other <= 13; other += 1 + other / 3) {
    const Tensor y = program.Feed({{"b", 2}, {"n", other}});
    program.FetchWithGradients(Concat({x, y, x}, "n"), {x, y});
    program.FetchWithGradients(Concat({y, x}, "n"), {x, y});
  }
}

TEST_P(Halos, OfEveryShiftSlicePadAndConcat) {
  for (int64_t size : Sizes()) {
    HaloProgram program(size);
    AddAllMovement(program);
    Expect(program);
  }
}

TEST_P(Halos, OfMovementOnTheReferenceDevice) {
  HaloProgram program(ThoroughTests() ? 11 : 5);
  AddAllMovement(program);
  Expect(program, "reference");
}

TEST_P(Halos, OfOtherDTypes) {
  for (DType dtype : {kBFloat16, kFloat16, kInt32, kInt64}) {
    HaloProgram program(7, dtype);
    const Tensor x = program.x();
    for (const bool wrap : {false, true}) {
      const WindowOptions options{.dilation = 2, .wrap = wrap};
      const Tensor y = Windows(x, "n", {"w", 3}, options);
      program.FetchWithGradients(y, {x});
      program.Fetch(FoldWindows(y, "n", "w", 7, options));
      program.FetchWithGradients(Shift(x, "n", 2, wrap), {x});
    }
    Expect(program);
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, Halos, ::testing::ValuesIn(kLayouts));

class HalosOfTwoDimensions : public ::testing::TestWithParam<HaloLayout> {};

// Windows of windows, as a convolution of images needs them.
TEST_P(HalosOfTwoDimensions, AreThoseOfEach) {
  for (int64_t size = 1; size <= Repeats(13, 5);
       size += ThoroughTests() ? 1 : 4) {
    for (int64_t other : {3, 8}) {
      HaloProgram program(size);
      const Tensor x =
          program.Feed({{"n", size}, {"b", 2}, {"m", other}, {"c", 1}});
      const std::vector<NamedOptions> along_n = AllOptions(size, 3);
      const std::vector<NamedOptions> along_m = AllOptions(other, 4);
      for (size_t i = 0; i < along_n.size(); i += 5) {
        const NamedOptions &n = along_n[i];
        const NamedOptions &m = along_m[i % along_m.size()];
        const Tensor rows =
            Windows(x, "n", {absl::StrCat("w", n.window), n.window}, n.options);
        const Tensor y = Windows(
            rows, "m", {absl::StrCat("v", m.window), m.window}, m.options);
        program.FetchWithGradients(y, {x});
        program.FetchWithGradients(
            Shift(Concat({x, x}, "m"), "n", size / 2, n.options.wrap), {x});
      }
      program.ExpectOracleValues("cpu", GetParam().mesh, GetParam().layout);
    }
  }
}

const HaloLayout kTwoDimensions[] = {
    {"x:2,y:2", "n:x, m:y"},       {"x:2,y:3", "n:x, m:y"},
    {"x:2,y:3", "n:y, m:x"},       {"x:2,y:2", "n:x+y"},
    {"x:2,y:2,z:2", "n:x, m:z+y"},
};
INSTANTIATE_TEST_SUITE_P(Layouts, HalosOfTwoDimensions,
                         ::testing::ValuesIn(kTwoDimensions));

}  // namespace
}  // namespace mtf::testing
