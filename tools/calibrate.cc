// SPDX-License-Identifier: Apache-2.0
#include "tools/calibrate.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "backends/backend.h"
#include "backends/communicators/launcher.h"
#include "backends/host_memory.h"
#include "layouts/text_items.h"
#include "mtf/check.h"
#include "mtf/status.h"
#include "planning/machine/machine.h"
#include "planning/machine/units.h"
#include "tools/curve_timer.h"
#include "tools/one_instruction.h"
#include "train/session/rank_set.h"

namespace mtf {
namespace {

// All curves get the same share of the time.
constexpr int kCurves = 10;

using Point = CurvePoint;

// The measurements of one rank.
class Calibration {
 public:
  Calibration(Communicator& communicator, const CalibrateOptions& options)
      : communicator_(communicator), options_(options) {}

  absl::StatusOr<std::string> Run() {
    threads_ = communicator_.placement().threads;
    // Sets the number of threads of kernels on this thread.
    MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device,
                         CreateDevice("cpu", {.num_threads = threads_}));
    device->EnterThread();
    MTF_ASSIGN_OR_RETURN(group_, communicator_.GroupOver({0}));
    timer_.emplace(communicator_, *group_, options_.seconds, kCurves,
                   options_.progress);
    MTF_ASSIGN_OR_RETURN(const std::vector<Point> copies, Copies());
    MTF_ASSIGN_OR_RETURN(const std::vector<Point> maps, Maps());
    MTF_ASSIGN_OR_RETURN(const std::vector<Point> f32, Cubes(kFloat32));
    MTF_ASSIGN_OR_RETURN(const std::vector<Point> bf16, Cubes(kBFloat16));
    MTF_ASSIGN_OR_RETURN(const std::vector<Point> sides, ThinProducts());
    std::string text =
        absl::StrCat(Head(copies, maps), Rates(kFloat32, f32, sides),
                     Rates(kBFloat16, bf16, {}));
    MTF_ASSIGN_OR_RETURN(const std::string link, Link());
    return absl::StrCat(text, link);
  }

 private:
  int64_t ranks() const { return communicator_.size(); }

  absl::StatusOr<double> Product(DType dtype, int64_t m, int64_t n, int64_t k,
                                 double allowance) {
    OneInstruction product(threads_);
    product.instruction = Instruction(Opcode::kEinsum);
    product.AddOperand({{"m", m}, {"k", k}}, dtype);
    product.AddOperand({{"k", k}, {"n", n}}, dtype);
    product.SetResult({{"m", m}, {"n", n}}, dtype);
    product.Prepare();
    return timer_->Median([] {}, [&] { return Do([&] { product.Run(); }); },
                          allowance);
  }
  template <class Body>
  static absl::Status Do(const Body& body) {
    body();
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<Point>> Cubes(DType dtype) {
    return timer_->Curve(absl::StrCat("matmul ", DTypeName(dtype)),
                         CurveTimer::kSides, {32, 64, 128, 256, 512, 1024},
                         [&](double size, double allowance) {
                           const int64_t side = static_cast<int64_t>(size);
                           return Product(dtype, side, side, side, allowance);
                         });
  }
  absl::StatusOr<std::vector<Point>> ThinProducts() {
    return timer_->Curve("matmul f32 of 1024 x 1024", CurveTimer::kSides,
                         {4, 16, 64}, [&](double size, double allowance) {
                           return Product(kFloat32, static_cast<int64_t>(size),
                                          1024, 1024, allowance);
                         });
  }

  // Measures bytes read and written by the sum of two operands. An identity
  // would be copied with non-temporal stores, which no other map uses. The
  // smallest size is as good as an empty kernel.
  absl::StatusOr<std::vector<Point>> Copies() {
    return timer_->Curve(
        "copy", CurveTimer::kBytes,
        {12 << 3, 12 << 9, 12 << 12, 12 << 15, 12 << 18, 12 << 22},
        [&](double bytes, double allowance) {
          const Shape shape = {{"x", static_cast<int64_t>(bytes) / 12}};
          OneInstruction map(threads_);
          ExpressionOf(map.instruction) =
              MapExpression::Single(ScalarFunction::kAdd, kFloat32, 2);
          map.AddOperand(shape, kFloat32);
          map.AddOperand(shape, kFloat32);
          map.SetResult(shape, kFloat32);
          map.Prepare();
          return timer_->Median([] {}, [&] { return Do([&] { map.Run(); }); },
                                allowance);
        });
  }

  // A map of many steps over data that fits the first-level cache, like the
  // gradient of an activation: one transcendental function among plain ones.
  absl::StatusOr<std::vector<Point>> Maps() {
    return timer_->Curve(
        "map", CurveTimer::kBytes, {4 << 12},
        [&](double bytes, double allowance) {
          using F = ScalarFunction;
          const Shape shape = {{"x", static_cast<int64_t>(bytes) / 4}};
          OneInstruction map(threads_);
          ExpressionOf(map.instruction) = {
              1,
              {{F::kMultiply, kFloat32, {0, 0}, 0, ""},
               {F::kMultiply, kFloat32, {1, 0}, 0, ""},
               {F::kAdd, kFloat32, {2, 0}, 0, ""},
               {F::kTanh, kFloat32, {3}, 0, ""},
               {F::kSubtract, kFloat32, {4, 1}, 0, ""},
               {F::kMultiply, kFloat32, {5, 3}, 0, ""},
               {F::kMultiply, kFloat32, {6, 2}, 0, ""},
               {F::kAdd, kFloat32, {7, 4}, 0, ""}}};
          map.AddOperand(shape, kFloat32);
          map.SetResult(shape, kFloat32);
          map.Prepare();
          return timer_->Median([] {}, [&] { return Do([&] { map.Run(); }); },
                                allowance);
        });
  }

  absl::StatusOr<std::string> Link() {
    const int64_t n = ranks();
    const int64_t largest = 32 << 20;
    // Operands have just been written, as in a step.
    std::vector<float> in(largest / 4), out(largest / 4);
    const int64_t left = (communicator_.rank() + n - 1) % n,
                  right = (communicator_.rank() + 1) % n;
    struct Collective {
      CollectiveKind kind;
      std::function<absl::Status(int64_t)> run;
    };
    const std::vector<Collective> collectives = {
        {CollectiveKind::kAllReduce,
         [&](int64_t bytes) {
           return communicator_.AllReduce(*group_,
                                          {{in.data(), out.data(), bytes / 4}},
                                          kFloat32, ReduceKind::kSum);
         }},
        {CollectiveKind::kAllGather,
         [&](int64_t bytes) {
           return communicator_.AllGather(*group_, in.data(), out.data(),
                                          bytes / n);
         }},
        {CollectiveKind::kReduceScatter,
         [&](int64_t bytes) {
           return communicator_.ReduceScatter(*group_, in.data(), out.data(),
                                              bytes / 4 / n, kFloat32,
                                              ReduceKind::kSum);
         }},
        {CollectiveKind::kAllToAll,
         [&](int64_t bytes) {
           return communicator_.AllToAll(*group_, in.data(), out.data(),
                                         bytes / n);
         }},
        {CollectiveKind::kCollectivePermute, [&](int64_t bytes) {
           return communicator_.Permute(*group_, in.data(), out.data(), bytes,
                                        left, right);
         }}};
    std::vector<double> sizes;
    for (int64_t bytes = 1 << 10; bytes <= largest; bytes *= 4) {
      // Every rank gets the same number of floats.
      const int64_t unit = 4 * n;
      sizes.push_back(
          static_cast<double>(std::max<int64_t>(unit, bytes / unit * unit)));
    }
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    std::string tables;
    double latency = 0, bandwidth = 0;
    for (const Collective& collective : collectives) {
      const std::string name =
          absl::StrCat(CollectiveName(collective.kind), " over ", n);
      MTF_ASSIGN_OR_RETURN(
          const std::vector<Point> points,
          timer_->Curve(
              name, CurveTimer::kBytes, sizes,
              [&](double size, double allowance) {
                const int64_t bytes = static_cast<int64_t>(size);
                const auto prepare = [&] {
                  std::fill_n(in.data(), bytes / 4, static_cast<float>(bytes));
                };
                return timer_->Median(
                    prepare, [&] { return collective.run(bytes); }, allowance);
              }));
      absl::StrAppend(&tables, name, "\n", Rows(points));
      // The last one, collective_permute, is a single message.
      latency = points.front().seconds;
      bandwidth = points.back().size / points.back().seconds;
    }
    return absl::StrCat(
        "\n[link ranks]\nbandwidth ",
        FormatQuantity(bandwidth, Quantity::kBytesPerSecond), "\nlatency ",
        FormatQuantity(latency, Quantity::kSeconds), "\n", tables);
  }

  static std::string Rows(const std::vector<Point>& points) {
    std::string rows;
    for (const Point& point : points) {
      absl::StrAppend(&rows, "  ", FormatQuantity(point.size, Quantity::kBytes),
                      " ", FormatQuantity(point.seconds, Quantity::kSeconds),
                      "\n");
    }
    return rows;
  }

  std::string Head(const std::vector<Point>& copies,
                   const std::vector<Point>& maps) {
    char host[256] = "";
    gethostname(host, sizeof(host) - 1);
    const double memory = static_cast<double>(HostMemoryBytes()) /
                          communicator_.placement().local_ranks;
    launch_ = copies.front().seconds;
    // Eight steps for each float.
    const double functions = Rate(maps[0].size / 4 * 8, maps[0].seconds);
    return absl::StrCat(
        "# Measured by mtf calibrate on ", Escaped(host), ": ",
        Plural(ranks(), "rank"), " of ", Plural(threads_, "thread"),
        " that work concurrently, medians of the slowest rank.\nmachine ",
        options_.name, "\n\n[device]\nmemory ",
        FormatQuantity(std::floor(memory), Quantity::kBytes), "\nbandwidth ",
        FormatQuantity(copies.back().size / copies.back().seconds,
                       Quantity::kBytesPerSecond),
        "\nlatency ", FormatQuantity(launch_, Quantity::kSeconds),
        "\nfunctions ", FormatQuantity(functions, Quantity::kFlopsPerSecond),
        "\noverlap no\nattention yes\ncopy\n", Rows(copies));
  }

  // The launch is not part of the product's time.
  double Rate(double flops, double seconds) const {
    return flops / std::max(seconds - launch_, seconds / 2);
  }

  std::string Rates(DType dtype, const std::vector<Point>& cubes,
                    const std::vector<Point>& thin) const {
    double peak = 0;
    for (const Point& point : cubes) {
      peak = std::max(peak, Rate(2 * std::pow(point.size, 3), point.seconds));
    }
    ShareCurve shares;
    std::string flops, side;
    const auto part = [](double share) { return std::clamp(share, 1e-4, 1.0); };
    for (const Point& point : cubes) {
      const double count = 2 * std::pow(point.size, 3);
      shares.points.push_back({count, part(Rate(count, point.seconds) / peak)});
      absl::StrAppendFormat(&flops, " %.9g:%.4g", count,
                            shares.points.back().share);
    }
    for (const Point& point : thin) {
      const double count = 2 * point.size * 1024 * 1024;
      absl::StrAppendFormat(
          &side, " %.9g:%.4g", point.size,
          part(Rate(count, point.seconds) / (peak * shares.At(count))));
    }
    return absl::StrCat("\n[matmul ", DTypeName(dtype), "]\npeak ",
                        FormatQuantity(peak, Quantity::kFlopsPerSecond),
                        "\nflops", flops, "\n", side.empty() ? "" : "side",
                        side, side.empty() ? "" : "\n");
  }

  Communicator& communicator_;
  const CalibrateOptions& options_;
  const Communicator::Group* group_ = nullptr;
  std::optional<CurveTimer> timer_;
  int threads_ = 1;
  double launch_ = 0;  // of an empty kernel
};

absl::Status CheckOptions(const CalibrateOptions& options, int launched) {
  const auto wrong = [](absl::string_view what, absl::string_view help) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, DetailLine("help", help)));
  };
  if (!IsLayoutName(options.name)) {
    return wrong(absl::StrCat("invalid machine name ", Quoted(options.name)),
                 "use letters, digits, \"_\" and \"-\"");
  }
  if (!(options.seconds > 0 && options.seconds <= 3600)) {
    return wrong(
        absl::StrCat("a calibration cannot take ", options.seconds, " seconds"),
        "more than 0, at most 3600; 20 is usual");
  }
  if (launched > 1 && options.ranks != 0) {
    return wrong(absl::StrCat("the launcher has ", launched,
                              " ranks, so their number cannot be set to ",
                              options.ranks),
                 "leave it out, or start without a launcher");
  }
  if (options.ranks == 1 || options.ranks < 0 ||
      options.ranks > train::RankSet::kMaxLocalRanks) {
    return wrong(absl::StrCat("collectives cannot be measured with ",
                              Plural(options.ranks, "rank")),
                 absl::StrCat("from 2 to ", train::RankSet::kMaxLocalRanks,
                              ", or 0 for the cores of this host"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> CalibrateThisHost(const CalibrateOptions& options) {
  const int launched = DetectLauncher().size;
  MTF_RETURN_IF_ERROR(CheckOptions(options, launched));
  int ranks = launched;
  if (launched == 1) {
    ranks = options.ranks != 0
                ? options.ranks
                : std::clamp<int>(AllowedCores(), 2,
                                  train::RankSet::kMaxLocalRanks);
  }
  MTF_ASSIGN_OR_RETURN(const Mesh mesh,
                       Mesh::Parse(absl::StrCat("ranks:", ranks)));
  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<train::RankSet> set,
                       train::RankSet::Create(mesh, launched > 1));
  std::vector<std::string> texts(static_cast<size_t>(set->size()));
  MTF_RETURN_IF_ERROR(
      set->RunAgreed([&](int i, Communicator& communicator) -> absl::Status {
        MTF_ASSIGN_OR_RETURN(texts[static_cast<size_t>(i)],
                             Calibration(communicator, options).Run());
        if (communicator.rank() != 0) texts[static_cast<size_t>(i)].clear();
        // Hosts differ, so all ranks return the text of the first rank.
        MTF_ASSIGN_OR_RETURN(
            const std::vector<std::string> all,
            communicator.AllGatherText(texts[static_cast<size_t>(i)]));
        texts[static_cast<size_t>(i)] = all[0];
        return absl::OkStatus();
      }));
  const absl::Status valid = Machine::Parse(texts[0], options.name).status();
  MTF_CHECK(valid.ok()) << valid.ToString();
  return texts[0];
}

}  // namespace mtf
