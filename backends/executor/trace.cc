// SPDX-License-Identifier: Apache-2.0
#include "backends/executor/trace.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "layouts/reshard_path.h"

namespace mtf {
namespace {

// A JSON string literal. Names may hold any byte.
std::string JsonText(absl::string_view text) {
  std::string json = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      json += '\\';
      json += c;
    } else if (static_cast<unsigned char>(c) < 0x20 ||
               static_cast<unsigned char>(c) >= 0x7f) {
      absl::StrAppendFormat(&json, "\\u%04x", static_cast<unsigned char>(c));
    } else {
      json += c;
    }
  }
  return json + '"';
}

double Microseconds(StepTrace::Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

std::string Field(absl::string_view name, absl::string_view value) {
  return absl::StrCat(",", JsonText(name), ":", JsonText(value));
}
std::string Field(absl::string_view name, int64_t value) {
  return absl::StrCat(",", JsonText(name), ":", value);
}

int64_t LocalBytes(const Program& program,
                   const absl::InlinedVector<int, 1>& values) {
  int64_t bytes = 0;
  for (int value : values) bytes += program.values[value].local_bytes();
  return bytes;
}

}  // namespace

StepTrace::StepTrace(const Program& program, int64_t rank)
    : program_(program), rank_(rank) {
  Clear();
}

void StepTrace::Clear() {
  events_ = absl::StrCat(
      ",\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":", rank_,
      ",\"tid\":0,\"args\":{\"name\":\"rank ", rank_, "\"}}",
      ",\n{\"name\":\"process_sort_index\",\"ph\":\"M\",\"pid\":", rank_,
      ",\"tid\":0,\"args\":{\"sort_index\":", rank_, "}}");
}

void StepTrace::Add(absl::string_view name, absl::string_view category,
                    Clock::time_point begin, Clock::time_point end,
                    absl::string_view arguments) {
  absl::StrAppend(
      &events_, ",\n{\"name\":", JsonText(name),
      ",\"cat\":", JsonText(category), ",\"ph\":\"X\",\"pid\":", rank_,
      ",\"tid\":0,\"ts\":",
      absl::StrFormat("%.3f", Microseconds(begin.time_since_epoch())),
      ",\"dur\":", absl::StrFormat("%.3f", Microseconds(end - begin)),
      ",\"args\":{", absl::StripPrefix(arguments, ","), "}}");
}

void StepTrace::AddPhase(absl::string_view name, Clock::time_point begin,
                         Clock::time_point end) {
  Add(name, "step", begin, end, "");
}

void StepTrace::AddInstruction(int index, Clock::time_point begin,
                               Clock::time_point end) {
  const Instruction& instruction = program_.instructions[index];
  const bool collective = IsCollective(instruction.opcode);
  std::string arguments = Field("instruction", OpcodeName(instruction.opcode));
  if (instruction.origin >= 0) {
    const Origin& origin = program_.origins[instruction.origin];
    absl::StrAppend(&arguments, Field("operation", origin.operation));
    if (origin.site.line > 0) {
      absl::StrAppend(&arguments, Field("line", origin.site.ToString()));
    }
  }
  absl::StrAppend(&arguments,
                  Field("bytes", LocalBytes(program_, instruction.results)));
  if (collective) {
    const AxisList& axes = instruction.Get<CollectiveAttributes>().axes;
    const std::vector<int64_t> ranks = program_.mesh.Group(rank_, axes);
    int64_t operand_bytes = 0;
    for (int operand : instruction.operands) {
      operand_bytes += program_.values[operand].local_bytes();
    }
    absl::StrAppend(
        &arguments,
        Field("wire_bytes",
              WireBytes(CollectiveOf(instruction.opcode),
                        static_cast<int64_t>(ranks.size()), operand_bytes)),
        Field("axes", program_.mesh.AxisNames(ListOf(SetOf(axes)))),
        Field("ranks", absl::StrJoin(ranks, ",")));
  }
  const std::string name = instruction.results.empty()
                               ? std::string(OpcodeName(instruction.opcode))
                               : program_.values[instruction.results[0]].name;
  Add(name, collective ? "collective" : "compute", begin, end, arguments);
}

std::string WriteTrace(absl::Span<const std::string> events) {
  const std::string all = absl::StrJoin(events, "");
  return absl::StrCat("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[",
                      absl::StripPrefix(all, ","), "\n]}\n");
}

}  // namespace mtf
