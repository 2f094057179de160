--- Loaded by busted where PONDER_GC_STRESS is set: every spec then runs with forced garbage
--- collections (gc_stress.c), in generational mode, and with a full one, finalizers included, after
--- each.

local busted = require "busted"

local stress = require "gc_stress"

collectgarbage("generational")
stress.install()

busted.subscribe({ "test", "end" }, function()
    collectgarbage()
    return nil, true
end)

busted.subscribe({ "suite", "end" }, function()
    io.write(("%d garbage collections were forced\n"):format(stress.collections()))
    return nil, true
end)
