--- Keeps this process within three quarters of the memory that its control group may use, so that
--- a runaway script fails before the kernel kills the process.

local host = require "ponder.core.host"

local memory = {}

---The lowest memory limit of our control groups (version 1 or 2) and those above them. In a
---container a path may be the one outside, while only our own group is mounted: then its file is at
---the root.
---@param groups string "/proc/self/cgroup"
---@param mounted string "/sys/fs/cgroup"
---@return number bytes, math.huge: none
function memory.group_limit(groups, mounted)
    local least = math.huge
    local file <close> = io.open(groups)
    for line in file and file:lines() or function() end do
        local controllers, group = line:match "^[^:]*:([^:]*):(.*)$"
        local where = controllers == "" and { mounted, "/memory.max" }
            or controllers == "memory" and { mounted .. "/memory", "/memory.limit_in_bytes" }
        while where and group do
            local limit <close> = io.open(where[1] .. group .. where[2])
            least = math.min(least, limit and limit:read "n" or math.huge) -- "max": no limit
            group = group ~= "" and (group:match "^(.*)/" or "") or nil
        end
    end
    return least
end

---Lowers the limit of this process accordingly.
function memory.limit()
    local _, now = host.memory()
    local bytes = memory.group_limit("/proc/self/cgroup", "/sys/fs/cgroup") * 0.75
    if bytes < now then
        host.limit_memory(math.max(1, bytes // (1 << 20) | 0))
    end
end

return memory
