// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target without libFuzzer: on the files of a corpus, then on a fixed number of mutations of them, which
// CAIRN_SEED chooses.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/fuzzing.hpp"
#include "fuzz/mutator.hpp"
#include "support/sampling.hpp"

namespace {

namespace fs = std::filesystem;

constexpr const char* kUsage =
    "usage: cairn_fuzz_<target> [--executions N] [--seed N] [--dictionary FILE] [--crash FILE] PATH...\n"
    "Runs the target on each file, and each file of each folder; then on N mutations of them. The input of "
    "a\n"
    "crash is written to the file named by --crash.\n";

struct Options {
  Options() = default;

  std::uint64_t executions = 0;
  std::uint64_t seed = cairn::testing::first_number();
  std::string dictionary;
  std::string crash_file = "crash-input";
  std::vector<std::string> paths;
};

// For the signal handler, which can be given nothing.
std::string_view current_input;
const char* crash_path = nullptr;
constexpr std::array kFatal = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
std::array<struct sigaction, kFatal.size()> previous;

// Keeps the input, then lets the signal do what it did before: a sanitizer's report, or the end.
void keep_input(int signal) {
  const int fd = ::open(crash_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd >= 0) {
    const bool is_kept =
        ::write(fd, current_input.data(), current_input.size()) == static_cast<ssize_t>(current_input.size());
    constexpr std::string_view kKept = "fuzz: the input is in the file named by --crash\n";
    if (is_kept && ::write(STDERR_FILENO, kKept.data(), kKept.size()) < 0) {
      ::_exit(1);
    }
    ::close(fd);
  }
  for (std::size_t i = 0; i < kFatal.size(); ++i) {
    if (kFatal[i] == signal) {
      ::sigaction(signal, &previous[i], nullptr);
    }
  }
}

void watch_for_crashes(const Options& options) {
  crash_path = options.crash_file.c_str();
  struct sigaction action {};
  action.sa_handler = keep_input;
  for (std::size_t i = 0; i < kFatal.size(); ++i) {
    ::sigaction(kFatal[i], &action, &previous[i]);
  }
}

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "%s\n%s", why.c_str(), kUsage);
  std::exit(2);
}

Options parse(const std::vector<std::string>& arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].starts_with("--")) {
      options.paths.push_back(arguments[i]);
      continue;
    }
    if (i + 1 == arguments.size()) {
      fail(arguments[i] + " needs a value");
    }
    const std::string& value = arguments[i + 1];
    if (arguments[i] == "--executions") {
      options.executions = std::strtoull(value.c_str(), nullptr, 10);
    } else if (arguments[i] == "--seed") {
      options.seed = std::strtoull(value.c_str(), nullptr, 10);
    } else if (arguments[i] == "--dictionary") {
      options.dictionary = value;
    } else if (arguments[i] == "--crash") {
      options.crash_file = value;
    } else {
      fail("unknown option " + arguments[i]);
    }
    ++i;
  }
  return options;
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    fail("cannot read " + path.string());
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The inputs of all paths, in the order of their names, which is the same on every machine.
std::vector<std::string> read_corpus(const std::vector<std::string>& paths) {
  std::vector<fs::path> files;
  for (const std::string& path : paths) {
    if (!fs::is_directory(path)) {
      files.emplace_back(path);
      continue;
    }
    for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> inputs;
  for (const fs::path& file : files) {
    inputs.push_back(read_file(file));
  }
  return inputs;
}

int digit_value(char c) {
  return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
}

/// The words of a dictionary of libFuzzer: `"word"` or `name="word"` a line, with \\, \" and \xAB in it.
std::vector<std::string> read_dictionary(const std::string& path) {
  std::vector<std::string> words;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t begin = line.find('"');
    const std::size_t end = line.rfind('"');
    if (line.starts_with('#') || begin == end) {
      continue;
    }
    std::string word;
    for (std::size_t i = begin + 1; i < end; ++i) {
      if (line[i] == '\\' && line[i + 1] == 'x' && i + 3 < end) {
        word += static_cast<char>(digit_value(line[i + 2]) * 16 + digit_value(line[i + 3]));
        i += 3;
      } else {
        i += line[i] == '\\' ? 1 : 0;
        word += line[i];
      }
    }
    words.push_back(std::move(word));
  }
  return words;
}

void execute(const std::string& input) {
  current_input = input;
  // A copy of exactly that size, so that a sanitizer sees a read beyond it.
  const std::vector<std::uint8_t> bytes(input.begin(), input.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse({argv + 1, argv + argc});
  std::vector<std::string> corpus = read_corpus(options.paths);
  if (corpus.empty()) {
    fail("no inputs");
  }
  watch_for_crashes(options);
  for (const std::string& input : corpus) {
    execute(input);
  }
  const std::size_t files = corpus.size();
  cairn::fuzz::Mutator mutator(
      options.seed, std::move(corpus),
      options.dictionary.empty() ? std::vector<std::string>() : read_dictionary(options.dictionary));
  for (std::uint64_t i = 0; i < options.executions; ++i) {
    execute(mutator.next());
  }
  const cairn::fuzz::Verdicts& verdicts = cairn::fuzz::verdicts();
  std::printf(
      "fuzz: %zu files and %llu mutations (seed %llu), %llu readings accepted, %llu refused, 0 crashes\n",
      files, static_cast<unsigned long long>(options.executions),
      static_cast<unsigned long long>(options.seed), static_cast<unsigned long long>(verdicts.accepted),
      static_cast<unsigned long long>(verdicts.refused));
  return 0;
}
