// SPDX-License-Identifier: Apache-2.0
//
// The fields that the ranks of a job compare, see plan_check.h.
#include <elf.h>
#include <link.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>  // program_invocation_short_name
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "layouts/text_items.h"
#include "lowering/program/print_program.h"
#include "mtf/errors.h"
#include "train/session/plan_check.h"

extern "C" char** environ;

namespace mtf::train {
namespace {

// Flags of files that only rank 0 writes.
constexpr absl::string_view kFlagsOfRank0[] = {"log_json", "dump_program",
                                               "explain_file"};

// Variables that may differ between ranks.
constexpr absl::string_view kOwnVariables[] = {"MTF_TERMINAL"};

// Variables of other libraries that must be equal on all ranks.
constexpr absl::string_view kSharedVariables[] = {"OMP_NUM_THREADS"};

template <class Names>
bool IsAmong(const Names& names, absl::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

void SortByName(std::vector<PlanField>& fields, size_t first) {
  std::sort(
      fields.begin() + static_cast<int64_t>(first), fields.end(),
      [](const PlanField& a, const PlanField& b) { return a.name < b.name; });
}

// FNV-1a over words of eight bytes: feeds may be large.
uint64_t Checksum(const char* data, int64_t bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  int64_t i = 0;
  for (; i + 8 <= bytes; i += 8) {
    uint64_t word = 0;
    std::copy_n(data + i, 8, reinterpret_cast<char*>(&word));
    hash = (hash ^ word) * 0x100000001b3;
    hash ^= hash >> 29;
  }
  for (; i < bytes; ++i) {
    hash = (hash ^ static_cast<unsigned char>(data[i])) * 0x100000001b3;
  }
  return hash;
}

// Flags whose value is the path of a file to read.
struct InputFlag {
  absl::string_view name;
  absl::string_view prefix;  // before the path
  bool may_be_name = false;  // the value may name something built in
};
constexpr InputFlag kInputFlags[] = {{"text", ""},
                                     {"tokens", ""},
                                     {"machine", "", /*may_be_name=*/true},
                                     {"budget", "@"}};

// "1234 bytes of checksum 9f3c"; "" if the file cannot be read.
std::string ContentsOf(const std::string& path) {
  constexpr int64_t kChunkBytes = 64 << 10, kMaxChunks = 1024;
  struct stat info;
  // Opening a pipe could wait forever.
  if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return "";
  std::ifstream file(path, std::ios::binary);
  const int64_t size = info.st_size;
  const int64_t chunks =
      std::min((size + kChunkBytes - 1) / kChunkBytes, kMaxChunks);
  std::vector<char> chunk(kChunkBytes);
  uint64_t checksum = 0;
  for (int64_t i = 0; i < chunks; ++i) {
    int64_t begin = i * kChunkBytes;
    if (size > kMaxChunks * kChunkBytes) {
      begin = static_cast<int64_t>(static_cast<double>(size - kChunkBytes) *
                                   static_cast<double>(i) / (kMaxChunks - 1));
    }
    const int64_t bytes = std::min(kChunkBytes, size - begin);
    if (!file.seekg(begin) || !file.read(chunk.data(), bytes)) return "";
    checksum = (checksum ^ Checksum(chunk.data(), bytes)) * 0x100000001b3;
  }
  if (!file.is_open()) return "";
  return absl::StrCat(size, size == 1 ? " byte" : " bytes", " of checksum ",
                      absl::Hex(checksum));
}

// The build id that the linker stored in the program. It distinguishes builds
// of one version from different sources or by different compilers. "" if there
// is none.
std::string BuildOfProgram() {
  std::string id;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* result) {
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& header = info->dlpi_phdr[i];
          if (header.p_type != PT_NOTE) continue;
          const char* at =
              reinterpret_cast<const char*>(info->dlpi_addr + header.p_vaddr);
          const char* const end = at + header.p_memsz;
          while (at + sizeof(ElfW(Nhdr)) <= end) {
            ElfW(Nhdr) note;
            std::memcpy(&note, at, sizeof(note));
            const char* const name = at + sizeof(note);
            const char* const text = name + (note.n_namesz + 3) / 4 * 4;
            if (note.n_type == NT_GNU_BUILD_ID &&
                absl::string_view(name, note.n_namesz) ==
                    absl::string_view("GNU", 4)) {
              *static_cast<std::string*>(result) = absl::BytesToHexString(
                  absl::string_view(text, note.n_descsz));
            }
            at = text + (note.n_descsz + 3) / 4 * 4;
          }
        }
        return 1;  // the program is the first; its libraries follow
      },
      &id);
  return id;
}

}  // namespace

std::vector<PlanField> FieldsOfProcess() {
  std::vector<PlanField> fields = {
      {"the program file", program_invocation_short_name},
      {"version of the library", MTF_VERSION},
      {"build of the program", BuildOfProgram()}};
  const size_t fixed = fields.size();
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    if (IsAmong(kFlagsOfRank0, name) || flag->IsRetired()) continue;
    fields.push_back({absl::StrCat("--", name), flag->CurrentValue()});
  }
  SortByName(fields, fixed);
  const size_t first = fields.size();
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const absl::string_view text = *variable;
    const size_t equals = text.find('=');
    if (equals == text.npos) continue;
    const absl::string_view name = text.substr(0, equals);
    const bool ours =
        absl::StartsWith(name, "MTF_") && !IsAmong(kOwnVariables, name);
    if (!ours && !IsAmong(kSharedVariables, name)) continue;
    fields.push_back({std::string(name), std::string(text.substr(equals + 1))});
  }
  SortByName(fields, first);
  return fields;
}

std::vector<PlanField> FieldsOfInputFiles() {
  std::vector<PlanField> fields;
  for (const InputFlag& input : kInputFlags) {
    const absl::CommandLineFlag* flag = absl::FindCommandLineFlag(input.name);
    if (flag == nullptr) continue;
    const std::string value = flag->CurrentValue();
    absl::string_view path = value;
    if (!absl::ConsumePrefix(&path, input.prefix) || path.empty()) continue;
    if (input.may_be_name && IsLayoutName(path)) continue;
    const std::string contents = ContentsOf(std::string(path));
    if (contents.empty()) continue;
    fields.push_back({absl::StrCat("file ", absl::Utf8SafeCHexEscape(path),
                                   " (--", input.name, ")"),
                      contents});
  }
  return fields;
}

std::vector<PlanField> FieldsOfSession(const Mesh& mesh,
                                       const LayoutRules& rules, bool strict,
                                       const std::string& backend,
                                       uint32_t seed) {
  // One rule per line, so that the first one that differs is reported.
  std::string layout;
  for (const LayoutRule& rule : rules.rules()) {
    absl::StrAppend(&layout, "[", rule.SectionName(), "] ", rule.ToString(),
                    "\n");
  }
  for (const OffloadItem& item : rules.offload().items()) {
    absl::StrAppend(&layout, "[offload] ", item.text, "\n");
  }
  for (const BudgetLine& line : rules.budget().lines()) {
    absl::StrAppend(&layout, "[budget] ", line.ToString(), "\n");
  }
  return {{"version of the library", MTF_VERSION},
          {"build of the program", BuildOfProgram()},
          {"mesh", mesh.ToString()},
          {"the layout", layout},
          {"strict layout", strict ? "yes" : "no"},
          {"backend", backend},
          {"seed", absl::StrCat(seed)}};
}

std::vector<PlanField> FieldsOfProgram(const Program& program) {
  return {{"the program", PrintProgram(program)}};
}

std::vector<PlanField> FieldsOfFeeds(
    const std::map<std::string, HostTensor>& feeds) {
  std::vector<PlanField> fields;
  for (const auto& [name, feed] : feeds) {
    fields.push_back(
        {absl::StrCat("feed \"", name, "\""),
         absl::StrCat(
             DescribeTensor(feed.dtype(), feed.shape()), " of checksum ",
             absl::Hex(Checksum(static_cast<const char*>(feed.data()),
                                static_cast<int64_t>(feed.num_bytes()))))});
  }
  return fields;
}

}  // namespace mtf::train
