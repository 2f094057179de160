--- The state directory, $XDG_STATE_HOME/ponder: small files that only their owner may read.
---
---     local state = require "ponder.base.state"
---     local key = state.read "key"
---     if not key then
---         state.write("key", new_key(), true)   -- of two processes one wins
---         key = state.read "key"
---     end
---
--- Files have mode 0600 and the directory 0700, whatever the umask. Files that others may read or
--- write or that others own, and symbolic links are not read.

local private = require "ponder.core.private"

local state = {}

-- Relative paths in the environment are ignored.
local function absolute(value)
    return (value or ""):match("^/.*")
end

---The path of the directory.
---@param env? fun(name: string): string? default os.getenv
---@return string? path nil if neither $XDG_STATE_HOME nor $HOME is set
function state.directory(env)
    env = env or os.getenv
    local home = absolute(env("HOME"))
    local at = absolute(env("XDG_STATE_HOME")) or home and home .. "/.local/state"
    return at and at .. "/ponder"
end

local NOWHERE = "$HOME: not set to an absolute path, so there is no state directory"

---Creates the directory, private.
---@return string? path
---@return string? message
---@return "NOT_FOUND"|"NOT_PRIVATE"|"IO"|nil code
function state.make()
    local at = state.directory()
    if not at then
        return nil, NOWHERE, "NOT_FOUND"
    end
    local ok, message, code = private.make_directory(at, true)
    return ok and at, message, code
end

---The path of a file in it.
---@return string? path nil if there is no state directory
function state.path(name)
    local at = state.directory()
    return at and at .. "/" .. name
end

---The text of a file that nobody else may read or write.
---@return string?
---@return string? message
---@return "NOT_FOUND"|"NOT_PRIVATE"|"IO"|nil code
function state.read(name)
    local path = state.path(name)
    if not path then
        return nil, NOWHERE, "NOT_FOUND"
    end
    return private.read(path)
end

---Writes a file, or replaces it, atomically.
---@param is_new? boolean it must not exist yet: of several processes one wins
---@return true?
---@return string? message
---@return "EXISTS"|"NOT_FOUND"|"NOT_PRIVATE"|"IO"|nil code
function state.write(name, text, is_new)
    local at, message, code = state.make()
    if not at then
        return nil, message, code
    end
    return private.write(at .. "/" .. name, text, is_new or false)
end

return state
