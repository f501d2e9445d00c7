// SPDX-License-Identifier: Apache-2.0
//
// Parses machine files. Each line is a section "[link nvlink]", an entry
// "latency 3 us", or a row of the preceding table, "32 KiB 39 us", which begins
// with a number. parse_machine_entries.cc parses the entries.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "planning/machine/machine_parser.h"
#include "planning/machine/units.h"

namespace mtf {
namespace {

constexpr size_t kMaxTextBytes = 1 << 20;

std::vector<absl::string_view> WordsOf(absl::string_view line) {
  return absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
}

bool BeginsNumber(absl::string_view word) {
  const char c = word[0];
  return absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '.' ||
         c == '-' || c == '+';
}

// "32 KiB 39 us" -> {"32 KiB", "39 us"}: each quantity begins with a number.
std::vector<std::string> Quantities(
    const std::vector<absl::string_view>& words) {
  std::vector<std::string> quantities;
  for (absl::string_view word : words) {
    if (quantities.empty() || BeginsNumber(word)) {
      quantities.emplace_back(word);
    } else {
      absl::StrAppend(&quantities.back(), " ", word);
    }
  }
  return quantities;
}

std::string NearestHelp(absl::string_view word,
                        const std::vector<std::string>& names,
                        absl::string_view what) {
  const std::string nearest = NearestName(word, names);
  const std::string all = absl::StrCat(what, " ", absl::StrJoin(names, ", "));
  return nearest.empty() ? all
                         : absl::StrCat("did you mean ", nearest, "? ", all);
}

// The name of a file without folder and ending.
std::string BaseName(absl::string_view origin) {
  origin = origin.substr(origin.find_last_of("/ ") + 1);
  absl::ConsumeSuffix(&origin, ".machine");
  return std::string(origin);
}

}  // namespace

absl::StatusOr<Machine> MachineParser::Run() {
  if (text_.size() > kMaxTextBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "machine file ", Quoted(origin_), " is larger than 1 MiB"));
  }
  const std::string name = BaseName(origin_);
  machine_.name_ = IsLayoutName(name) ? name : "machine";
  for (absl::string_view line : absl::StrSplit(text_, '\n')) {
    ++number_;
    line_ = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    if (line_.empty()) continue;
    const std::vector<absl::string_view> words = WordsOf(line_);
    if (line_[0] == '[') {
      MTF_RETURN_IF_ERROR(Section());
    } else if (BeginsNumber(words[0])) {
      MTF_RETURN_IF_ERROR(Row(words));
    } else {
      MTF_RETURN_IF_ERROR(Entry(words));
    }
  }
  MTF_RETURN_IF_ERROR(EndSection());
  MTF_RETURN_IF_ERROR(Finish());
  return std::move(machine_);
}

absl::Status MachineParser::FailAt(int number, absl::string_view line,
                                   absl::string_view what,
                                   absl::string_view help) const {
  return absl::InvalidArgumentError(
      absl::StrCat(what, " (", origin_, ":", number, ")",
                   line.empty() ? "" : DetailLine("line", Escaped(line)),
                   DetailLine("help", help)));
}

absl::Status MachineParser::WithLine(const absl::Status& status) const {
  const auto [first, details] = std::pair<std::string, std::string>(
      absl::StrSplit(status.message(), absl::MaxSplits('\n', 1)));
  return absl::InvalidArgumentError(
      absl::StrCat(first, " (", origin_, ":", number_, ")",
                   DetailLine("line", Escaped(line_)), "\n", details));
}

absl::Status MachineParser::Section() {
  MTF_RETURN_IF_ERROR(EndSection());
  constexpr absl::string_view kHelp =
      "the sections are [device], [matmul DTYPE], [attention] and [link NAME]";
  absl::string_view inside = line_;
  inside.remove_prefix(1);
  if (!absl::ConsumeSuffix(&inside, "]")) {
    return Fail(
        absl::StrCat("section ", Quoted(line_), " does not end with \"]\""),
        kHelp);
  }
  const std::vector<absl::string_view> words = WordsOf(inside);
  const std::string head(words.empty() ? "" : words[0]);
  const std::string one_section = "put the entries into one section";
  section_line_ = number_;
  section_text_ = line_;
  if (head == "device" && words.size() == 1) {
    if (device_) return Fail("section [device] is defined twice", one_section);
    device_ = true;
    kind_ = Kind::kDevice;
  } else if (head == "matmul" && words.size() == 2) {
    MTF_RETURN_IF_ERROR(Matmul(words[1]));
  } else if (head == "attention" && words.size() == 1) {
    if (machine_.has_attention_rate()) {
      return Fail("section [attention] is defined twice", one_section);
    }
    kind_ = Kind::kAttention;
  } else if (head == "link" && words.size() == 2) {
    if (!IsLayoutName(words[1])) {
      return Fail(absl::StrCat(Quoted(words[1]), " is not a name for a link"),
                  "names consist of letters, digits, \"_\" and \"-\"");
    }
    for (const MachineLink& link : machine_.links_) {
      if (link.name == words[1]) {
        return Fail(
            absl::StrCat("link ", Quoted(words[1]), " is defined twice"),
            one_section);
      }
    }
    machine_.links_.emplace_back().name = std::string(words[1]);
    link_lines_.push_back(CurrentLine());
    table_lines_.clear();
    kind_ = Kind::kLink;
  } else {
    const std::vector<std::string> heads = {"device", "matmul", "attention",
                                            "link"};
    const bool known =
        std::find(heads.begin(), heads.end(), head) != heads.end();
    return Fail(absl::StrCat("section ", Quoted(line_), " is unknown"),
                known ? std::string(kHelp)
                      : NearestHelp(head, heads, "the sections are"));
  }
  return absl::OkStatus();
}

absl::Status MachineParser::Matmul(absl::string_view name) {
  std::vector<std::string> names;
  for (DType dtype : kAllDTypes) {
    names.emplace_back(DTypeName(dtype));
    if (names.back() != name) continue;
    for (const MatmulRate& rate : machine_.rates_) {
      if (rate.dtype != dtype) continue;
      return Fail(absl::StrCat("section [matmul ", name, "] is defined twice"),
                  "put the entries into one section");
    }
    machine_.rates_.emplace_back().dtype = dtype;
    kind_ = Kind::kMatmul;
    return absl::OkStatus();
  }
  return Fail(absl::StrCat("dtype ", Quoted(name), " is unknown"),
              NearestHelp(name, names, "the dtypes are"));
}

absl::Status MachineParser::Entry(const std::vector<absl::string_view>& words) {
  MTF_RETURN_IF_ERROR(EndTable());
  const std::string key(words[0]);
  const std::vector<std::string> known = Entries();
  if (std::find(known.begin(), known.end(), key) == known.end()) {
    return Fail(absl::StrCat("entry ", Quoted(key), " is unknown in ", Where()),
                NearestHelp(key, known, "its entries are"));
  }
  const bool is_table =
      kind_ == Kind::kLink && words.size() > 1 && words[1] == "over";
  // A collective may have tables for several numbers of ranks.
  if (!is_table) {
    if (std::find(seen_.begin(), seen_.end(), key) != seen_.end()) {
      return Fail(
          absl::StrCat("entry ", Quoted(key), " is defined twice in ", Where()),
          "keep one");
    }
    seen_.push_back(key);
  }
  const std::vector<absl::string_view> rest(words.begin() + 1, words.end());
  switch (kind_) {
    case Kind::kTop:
      return key == "machine" ? Name(rest) : Checked(rest);
    case Kind::kDevice:
      return Device(key, rest);
    case Kind::kMatmul:
      return Rate(key, rest);
    case Kind::kAttention:
      return Curve(key, "the speed of a matmul", rest,
                   key == "forward" ? machine_.attention_.forward
                                    : machine_.attention_.backward);
    case Kind::kLink:
      return Link(key, rest);
  }
  return absl::OkStatus();
}

std::vector<std::string> MachineParser::Entries() const {
  switch (kind_) {
    case Kind::kTop:
      return {"machine", "checked"};
    case Kind::kDevice:
      return {"memory",  "bandwidth", "latency",   "host_link", "functions",
              "overlap", "fusion",    "attention", "copy"};
    case Kind::kMatmul:
      return {"peak", "flops", "side", "k"};
    case Kind::kAttention:
      return {"forward", "backward"};
    case Kind::kLink:
      break;
  }
  std::vector<std::string> entries = {"ranks", "bandwidth", "latency"};
  for (CollectiveKind kind : kKinds) {
    entries.emplace_back(CollectiveName(kind));
  }
  return entries;
}

std::string MachineParser::Where() const {
  return kind_ == Kind::kTop ? "the lines before the first section"
                             : std::string(section_text_);
}

absl::Status MachineParser::BeginTable(std::function<void(TimeCurve)> store) {
  store_ = std::move(store);
  rows_.clear();
  table_line_ = number_;
  table_text_ = line_;
  return absl::OkStatus();
}

absl::Status MachineParser::Row(const std::vector<absl::string_view>& words) {
  if (!store_) {
    return Fail("the row does not belong to a table",
                "rows follow \"copy\" or a collective, as in \"all_reduce "
                "over 8\"");
  }
  const std::vector<std::string> quantities = Quantities(words);
  if (quantities.size() != 2) {
    return Fail("a row is a size and a time or a rate",
                "as in \"32 KiB 39 us\" or \"1 GiB 265 GB/s\"");
  }
  MTF_ASSIGN_OR_RETURN(const double size,
                       PlausibleQuantity(quantities[0], Quantity::kBytes));
  // Up to the rounding error of number times unit.
  if (std::abs(size - std::round(size)) > size * 1e-15) {
    return Fail(
        absl::StrCat(Quoted(quantities[0]), " is not a whole number of bytes"),
        absl::StrFormat("the nearest is \"%.0f B\"", size));
  }
  const bool is_rate = absl::StrContains(quantities[1], "/");
  MTF_ASSIGN_OR_RETURN(
      double value,
      PlausibleQuantity(quantities[1], is_rate ? Quantity::kBytesPerSecond
                                               : Quantity::kSeconds));
  if (is_rate) {
    MTF_ASSIGN_OR_RETURN(
        value, InRange(quantities[1], size / value, Quantity::kSeconds));
  }
  if (!rows_.empty() && size <= rows_.back().size) {
    return Fail("the size is not larger than in the row before",
                "order the rows by size");
  }
  if (rows_.size() == kMaxRows) {
    return Fail("the table has more than 1000 rows", "remove some rows");
  }
  rows_.push_back({size, value});
  return absl::OkStatus();
}

absl::Status MachineParser::EndTable() {
  if (!store_) return absl::OkStatus();
  if (rows_.size() < 2) {
    return FailAt(
        table_line_, table_text_,
        absl::StrCat("the table has ",
                     Plural(static_cast<int64_t>(rows_.size()), "row")),
        "write at least two rows; without a table, latency and bandwidth "
        "are used");
  }
  store_(TimeCurve(std::move(rows_)));
  store_ = nullptr;
  rows_.clear();
  return absl::OkStatus();
}

absl::Status MachineParser::EndSection() {
  MTF_RETURN_IF_ERROR(EndTable());
  std::vector<std::string> needed;
  if (kind_ == Kind::kDevice) needed = {"memory", "bandwidth", "latency"};
  if (kind_ == Kind::kMatmul) needed = {"peak"};
  if (kind_ == Kind::kAttention) needed = {"forward", "backward"};
  if (kind_ == Kind::kLink) needed = {"bandwidth", "latency"};
  for (const std::string& entry : needed) {
    if (std::find(seen_.begin(), seen_.end(), entry) != seen_.end()) continue;
    return FailAt(section_line_, section_text_,
                  absl::StrCat("section ", Where(), " has no \"", entry, "\""),
                  absl::StrCat("it needs ", absl::StrJoin(needed, ", ")));
  }
  seen_.clear();
  return kind_ == Kind::kLink ? CheckTables() : absl::OkStatus();
}

absl::Status MachineParser::CheckTables() const {
  const MachineLink& link = machine_.links_.back();
  for (size_t i = 0; i < link.tables.size(); ++i) {
    if (link.ranks == 0 || link.tables[i].ranks <= link.ranks) continue;
    return FailAt(table_lines_[i].number, table_lines_[i].line,
                  absl::StrCat("the table is for ", link.tables[i].ranks,
                               " ranks, but link ", Quoted(link.name),
                               " connects ", link.ranks),
                  "put tables for more ranks into the next outer link");
  }
  return absl::OkStatus();
}

absl::Status MachineParser::Finish() {
  const auto missing = [&](absl::string_view section, absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("machine file ", Quoted(origin_), " has no section ",
                     section, DetailLine("help", why)));
  };
  if (!device_) return missing("[device]", "it holds memory and bandwidth");
  if (machine_.rates_.empty()) {
    return missing("[matmul DTYPE]", "as in \"[matmul bf16]\", with a peak");
  }
  if (machine_.links_.empty()) {
    return missing("[link NAME]",
                   "as in \"[link nvlink]\", with bandwidth and latency");
  }
  for (size_t i = 0; i + 1 < machine_.links_.size(); ++i) {
    const MachineLink &inner = machine_.links_[i],
                      &outer = machine_.links_[i + 1];
    if (inner.ranks == 0) {
      return FailAt(link_lines_[i].number, link_lines_[i].line,
                    absl::StrCat("link ", Quoted(inner.name),
                                 " does not say how many ranks it connects"),
                    absl::StrCat("link ", Quoted(outer.name),
                                 " is outside of it: write \"ranks 8\" for "
                                 "nodes of 8"));
    }
    if (outer.ranks != 0 &&
        (outer.ranks <= inner.ranks || outer.ranks % inner.ranks != 0)) {
      return FailAt(
          link_lines_[i + 1].number, link_lines_[i + 1].line,
          absl::StrCat("link ", Quoted(outer.name), " connects ", outer.ranks,
                       " ranks, which is not a larger multiple of the ",
                       inner.ranks, " of link ", Quoted(inner.name)),
          "order links from the inside to the outside");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Machine> Machine::Parse(absl::string_view text,
                                       absl::string_view origin) {
  return MachineParser(text, origin).Run();
}

}  // namespace mtf
