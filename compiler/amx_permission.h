#pragma once

namespace tilewright {

/// Whether this process may use the tile registers of AMX. Linux gives their state to a process that asks.
enum class AmxPermission {
  absent,  ///< the processor has no tile registers, or the system does not save them
  refused, ///< the system knows them and did not allow them
  granted,
};

/// Asks the system, once a process, on behalf of all its threads.
AmxPermission amxPermission();

} // namespace tilewright
