--- Whole files. A stop of the run ends a wait for a pipe or a terminal, and is raised there.

local core = require "ponder.core.task"
local private = require "ponder.core.private"

local file = {}

---Whether a path exists. Unlike opening it, this does not wait for the writer of a pipe.
---@param path string
---@return boolean
function file.exists(path)
    return private.about(path, true) ~= nil
end

---Passes on what opening or reading a file returned, unless a stop of the run ended it.
---@param value any
---@param ... any
---@return any value
---@return any ...
function file.unless_stopped(value, ...)
    if value == nil then
        core.raise_stop()
    end
    return value, ...
end

---The text of a file.
---@param path string
---@param max_bytes? integer longer files are refused, unread beyond that
---@return string? text
---@return string? message with the path
function file.read(path, max_bytes)
    local opened <close>, message = file.unless_stopped(io.open(path, "rb"))
    if not opened then
        return nil, message
    end
    local text, problem = file.unless_stopped(opened:read(max_bytes and max_bytes + 1 or "a"))
    if problem then
        return nil, ("%s: %s"):format(path, problem)
    elseif max_bytes and text and #text > max_bytes then
        return nil, ("%s: it exceeds %d bytes"):format(path, max_bytes)
    end
    return text or ""
end

return file
