// SPDX-License-Identifier: Apache-2.0
//
// Parses the entries of a machine file; see parse_machine.cc.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "planning/machine/machine_parser.h"
#include "planning/machine/units.h"

namespace mtf {
namespace {

constexpr int64_t kMaxRanks = int64_t{1} << 40;

// The plausible range of a quantity. Values outside are typing errors.
struct Range {
  double min, max;
};
Range RangeOf(Quantity quantity) {
  switch (quantity) {
    case Quantity::kBytes:
      return {1, 0x1p60};
    case Quantity::kBytesPerSecond:
      return {1, 1e15};
    case Quantity::kFlopsPerSecond:
      return {1, 1e21};
    case Quantity::kSeconds:
      return {1e-12, 3600};
  }
  return {0, 0};
}

}  // namespace

absl::Status MachineParser::Name(const std::vector<absl::string_view>& rest) {
  if (rest.size() != 1 || !IsLayoutName(rest[0])) {
    return Fail("a machine's name consists of letters, digits, \"_\" and \"-\"",
                "as in \"machine h200_x8\"");
  }
  machine_.name_ = std::string(rest[0]);
  return absl::OkStatus();
}

absl::Status MachineParser::Checked(
    const std::vector<absl::string_view>& rest) {
  machine_.checked_ = absl::StrJoin(rest, " ");
  if (!rest.empty() && Escaped(machine_.checked_) == machine_.checked_) {
    return absl::OkStatus();
  }
  return Fail("\"checked\" does not say what the estimates were compared to",
              "as in \"checked three step times of Korthikanti et al. 2022\", "
              "or leave the entry out");
}

absl::StatusOr<double> MachineParser::PlausibleQuantity(
    absl::string_view text, Quantity quantity) const {
  const auto value = ParseQuantity(text, quantity);
  if (!value.ok()) return WithLine(value.status());
  return InRange(text, *value, quantity);
}

absl::StatusOr<double> MachineParser::InRange(absl::string_view text,
                                              double value,
                                              Quantity quantity) const {
  const Range range = RangeOf(quantity);
  if (value >= range.min && value <= range.max) return value;
  return Fail(absl::StrCat(Quoted(text), " is out of range"),
              absl::StrCat("the range is ", FormatQuantity(range.min, quantity),
                           " to ", FormatQuantity(range.max, quantity)));
}

absl::StatusOr<double> MachineParser::One(
    const std::vector<absl::string_view>& rest, Quantity quantity) const {
  return PlausibleQuantity(absl::StrJoin(rest, " "), quantity);
}

absl::Status MachineParser::YesOrNo(const std::string& key,
                                    const std::vector<absl::string_view>& rest,
                                    absl::string_view help, bool& value) const {
  if (rest.size() != 1 || (rest[0] != "yes" && rest[0] != "no")) {
    return Fail(absl::StrCat(key, " is neither \"yes\" nor \"no\""), help);
  }
  value = rest[0] == "yes";
  return absl::OkStatus();
}

absl::Status MachineParser::Device(const std::string& key,
                                   const std::vector<absl::string_view>& rest) {
  if (key == "memory") {
    MTF_ASSIGN_OR_RETURN(const double bytes, One(rest, Quantity::kBytes));
    machine_.memory_bytes_ = static_cast<int64_t>(bytes);
  } else if (key == "bandwidth") {
    MTF_ASSIGN_OR_RETURN(machine_.bandwidth_,
                         One(rest, Quantity::kBytesPerSecond));
  } else if (key == "latency") {
    MTF_ASSIGN_OR_RETURN(machine_.latency_, One(rest, Quantity::kSeconds));
  } else if (key == "host_link") {
    MTF_ASSIGN_OR_RETURN(machine_.host_link_,
                         One(rest, Quantity::kBytesPerSecond));
  } else if (key == "functions") {
    MTF_ASSIGN_OR_RETURN(machine_.functions_,
                         One(rest, Quantity::kFlopsPerSecond));
  } else if (key == "overlap") {
    return YesOrNo(key, rest,
                   "\"yes\" if collectives overlap with compute that does not "
                   "depend on them",
                   machine_.overlaps_);
  } else if (key == "fusion") {
    return YesOrNo(key, rest,
                   "\"yes\" if chains of maps and reductions run as one kernel",
                   machine_.fuses_);
  } else if (key == "attention") {
    return YesOrNo(key, rest,
                   "\"yes\" if attention is computed in blocks, without the "
                   "logits in memory, whatever the dtype and the mask",
                   machine_.has_all_attention_);
  } else if (key == "copy") {
    if (!rest.empty()) {
      return Fail("\"copy\" has no value; its rows follow on the next lines",
                  "a row is a size and a rate, as in \"1 MiB 12 GB/s\"");
    }
    return BeginTable(
        [this](TimeCurve curve) { machine_.copy_ = std::move(curve); });
  }
  return absl::OkStatus();
}

absl::Status MachineParser::Rate(const std::string& key,
                                 const std::vector<absl::string_view>& rest) {
  MatmulRate& rate = machine_.rates_.back();
  if (key == "peak") {
    MTF_ASSIGN_OR_RETURN(rate.peak, One(rest, Quantity::kFlopsPerSecond));
    return absl::OkStatus();
  }
  ShareCurve& curve =
      key == "flops" ? rate.flops : (key == "side" ? rate.side : rate.k);
  return Curve(key, "the peak", rest, curve);
}

absl::Status MachineParser::Curve(const std::string& key,
                                  absl::string_view what,
                                  const std::vector<absl::string_view>& rest,
                                  ShareCurve& curve) const {
  const std::string form = absl::StrCat("write sizes and shares of ", what,
                                        ", as in \"", key, " 128:0.7 1024:1\"");
  if (rest.empty()) return Fail("the curve has no points", form);
  if (rest.size() > kMaxRows) {
    return Fail("the curve has more than 1000 points", form);
  }
  for (absl::string_view word : rest) {
    const std::vector<absl::string_view> parts = absl::StrSplit(word, ':');
    ShareCurve::Point point;
    if (parts.size() != 2 || !ParseDecimal(parts[0], &point.size) ||
        !ParseDecimal(parts[1], &point.share)) {
      return Fail(absl::StrCat(Quoted(word), " is not a point of a curve"),
                  form);
    }
    if (!(point.size > 0 && point.size < 1e30)) {
      return Fail(absl::StrCat("point ", Quoted(word),
                               " has a size that is not between 0 and 1e30"),
                  form);
    }
    if (point.size != std::floor(point.size)) {
      return Fail(absl::StrCat("point ", Quoted(word),
                               " has a size that is not a whole number"),
                  "sizes are numbers of FLOPs or elements");
    }
    if (point.share > 0 && point.share < 1e-6) {
      return Fail(absl::StrCat("point ", Quoted(word), " has a share of ", what,
                               " of less than a millionth"),
                  "no device is that slow");
    }
    if (!(point.share > 0 && point.share <= 1)) {
      return Fail(absl::StrCat("point ", Quoted(word), " has a share of ", what,
                               " outside of (0, 1]"),
                  absl::StrCat("1 is ", what, " itself"));
    }
    if (!curve.points.empty() && point.size <= curve.points.back().size) {
      return Fail(absl::StrCat("point ", Quoted(word),
                               " is not larger than the one before"),
                  "order the points by size");
    }
    curve.points.push_back(point);
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> MachineParser::Ranks(absl::string_view word) const {
  int64_t ranks = 0;
  if (!absl::SimpleAtoi(word, &ranks) || ranks < 2 || ranks > kMaxRanks) {
    return Fail(
        absl::StrCat(Quoted(word), " is not a number of ranks of at least 2"),
        "a link connects two ranks or more");
  }
  return ranks;
}

absl::Status MachineParser::Link(const std::string& key,
                                 const std::vector<absl::string_view>& rest) {
  MachineLink& link = machine_.links_.back();
  if (key == "ranks") {
    if (rest.size() != 1) {
      return Fail("\"ranks\" takes one number", "as in \"ranks 8\"");
    }
    MTF_ASSIGN_OR_RETURN(link.ranks, Ranks(rest[0]));
    link_lines_.back() = CurrentLine();
  } else if (key == "bandwidth") {
    MTF_ASSIGN_OR_RETURN(link.bandwidth, One(rest, Quantity::kBytesPerSecond));
  } else if (key == "latency") {
    MTF_ASSIGN_OR_RETURN(link.latency, One(rest, Quantity::kSeconds));
  } else {
    if (rest.size() != 2 || rest[0] != "over") {
      return Fail(absl::StrCat("table ", Quoted(key),
                               " does not give its number of ranks"),
                  absl::StrCat("write \"", key, " over 8\""));
    }
    MTF_ASSIGN_OR_RETURN(const int64_t ranks, Ranks(rest[1]));
    CollectiveKind kind = kKinds[0];
    for (CollectiveKind candidate : kKinds) {
      if (CollectiveName(candidate) == key) kind = candidate;
    }
    for (const CollectiveTable& table : link.tables) {
      if (table.kind == kind && table.ranks == ranks) {
        return Fail(absl::StrCat("table \"", key, " over ", ranks,
                                 "\" is defined twice"),
                    "put the rows together");
      }
    }
    link.tables.push_back({kind, ranks, {}});
    table_lines_.push_back(CurrentLine());
    const size_t at = link.tables.size() - 1;
    return BeginTable([&link, at](TimeCurve curve) {
      link.tables[at].seconds = std::move(curve);
    });
  }
  return absl::OkStatus();
}

}  // namespace mtf
