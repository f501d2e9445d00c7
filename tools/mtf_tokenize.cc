// SPDX-License-Identifier: Apache-2.0
//
// mtf tokenize: a text as a file of tokens, from which training reads.
#include <iostream>
#include <memory>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "tools/mtf_commands.h"
#include "tools/mtf_flags.h"
#include "tools/tokenize_file.h"
#include "train/tokenizers/open_tokenizer.h"

ABSL_FLAG(std::string, tokenizer, "",
          "a folder with a tokenizer.json, spiece.model, tokenizer.model, "
          "vocab.json and merges.txt, or vocab.txt; one of these files; or "
          "\"bytes\"");
ABSL_FLAG(std::string, input, "", "the text, in UTF-8");
ABSL_FLAG(std::string, document, "file",
          "what special tokens stand around: file, line, or blank_line for "
          "the lines between empty ones");
ABSL_FLAG(bool, special_ends, true,
          "puts the special tokens that the tokenizer asks for at the ends of "
          "each document, or eos after it if it asks for none");

namespace mtf::tools {
namespace {

absl::Status Tokenize(const std::vector<std::string>& arguments) {
  if (!arguments.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "mtf tokenize takes flags only, not ", Quoted(arguments[0]),
        DetailLine("help", "give the text as --input=FILE")));
  }
  const std::string input = absl::GetFlag(FLAGS_input);
  const std::string output = absl::GetFlag(FLAGS_output);
  const std::string name = absl::GetFlag(FLAGS_tokenizer);
  for (const auto& [flag, value] :
       {std::pair{"tokenizer", name}, {"input", input}, {"output", output}}) {
    if (!value.empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "no --", flag, " is given",
        DetailLine("help",
                   "mtf tokenize --tokenizer=models/gpt2 --input=text.txt "
                   "--output=tokens.bin")));
  }
  TokenizeOptions options;
  MTF_ASSIGN_OR_RETURN(options.document,
                       ParseDocumentKind(absl::GetFlag(FLAGS_document)));
  options.special_ends = absl::GetFlag(FLAGS_special_ends);
  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<train::Tokenizer> tokenizer,
                       train::OpenTokenizer(name));
  MTF_ASSIGN_OR_RETURN(const TokenizeResult result,
                       TokenizeFile(*tokenizer, input, output, options));
  std::cout << Plural(result.documents, "document") << ", "
            << Plural(result.text_bytes, "byte") << ", "
            << Plural(result.tokens, "token") << " of "
            << 8 * result.token_bytes << " bits; the vocabulary has "
            << tokenizer->vocabulary_size() << " tokens\n";
  return absl::OkStatus();
}

}  // namespace

Command TokenizeCommand() {
  return {"tokenize",
          "",
          "writes a text as a file of tokens to train on",
          {"tokenizer", "input", "output", "document", "special_ends"},
          &Tokenize};
}

}  // namespace mtf::tools
