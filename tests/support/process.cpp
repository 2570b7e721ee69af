// SPDX-License-Identifier: Apache-2.0
#include "support/process.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <sstream>
#include <utility>

#include <spawn.h>

namespace cairn::testing {
namespace {

void check(int error, const char* what) {
  if (error != 0) {
    throw std::system_error(error, std::system_category(), what);
  }
}

}  // namespace

Process::Process(std::string program, std::vector<std::string> arguments) {
  std::array<int, 2> input{};  // A socket: unlike a pipe's, its end can be written to without a SIGPIPE.
  std::array<int, 2> output{};
  check(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, input.data()) == 0 ? 0 : errno, "socketpair");
  check(::pipe2(output.data(), O_CLOEXEC) == 0 ? 0 : errno, "pipe2");
  input_ = input[1];
  output_ = output[0];
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
  std::vector<char*> pointers{program.data()};
  for (std::string& argument : arguments) {
    pointers.push_back(argument.data());
  }
  pointers.push_back(nullptr);
  const int error = ::posix_spawn(&id_, program.c_str(), &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(input[0]);
  ::close(output[1]);
  check(error, program.c_str());
}

Process::~Process() {
  if (id_ > 0) {
    ::kill(id_, SIGKILL);
    ::waitpid(id_, nullptr, 0);
  }
  ::close(input_);
  ::close(output_);
}

void Process::await_first_word() {
  read_more();
}

void Process::signal(int number) const {
  ::kill(id_, number);
}

void Process::tell(const std::string& line) const {
  const std::string text = line + "\n";
  ::send(input_, text.data(), text.size(), MSG_NOSIGNAL);
}

std::string Process::next_line() {
  std::size_t end = 0;
  while ((end = text_.find('\n')) == std::string::npos) {
    if (!read_more()) {
      return "";
    }
  }
  std::string line = text_.substr(0, end);
  text_.erase(0, end + 1);
  return line;
}

void Process::await_end() const {
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
}

std::vector<std::string> Process::finish() {
  while (read_more()) {
  }
  ::waitpid(std::exchange(id_, 0), nullptr, 0);
  text_.resize(text_.rfind('\n') + 1);  // npos + 1 is 0: not one whole line.
  std::vector<std::string> lines;
  std::istringstream stream(text_);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
  }
  return lines;
}

bool Process::read_more() {
  std::array<char, 4096> bytes;
  ssize_t size = -1;
  do {
    size = ::read(output_, bytes.data(), bytes.size());
  } while (size < 0 && errno == EINTR);
  if (size <= 0) {
    return false;
  }
  text_.append(bytes.data(), static_cast<std::size_t>(size));
  return true;
}

}  // namespace cairn::testing
