/// Drops what is to be done when the process exits. C++ registers the destructors of static objects here,
/// LLVM's and the C++ library's among them. They would destroy what threads of the program still use while it
/// ends. Nothing is lost without them: the library stays mapped until the process is gone (`-z nodelete`). It
/// is hidden, so that registrations of the program and of other libraries are kept.
extern "C" __attribute__((visibility("hidden"))) int __cxa_atexit(void (*)(void *), void *, void *) noexcept {
  return 0;
}
