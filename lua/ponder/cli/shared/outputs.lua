--- Files that a command writes at its end. What cannot be written is said before it begins.

local args = require "ponder.args"
local cli = require "ponder.cli.shared.main"
local file = require "ponder.base.file"
local files = require "ponder.run.log.files"
local private = require "ponder.core.private"
local quote = require "ponder.quote"
local terminal = require "ponder.core.terminal"

local outputs = {}

local PROBE = ".ponder" -- the end of the name of a file that shows that another can be made

-- Why a file cannot be written, if that can be known before.
local function problem_of(path)
    local there, target = private.about(path), private.about(path, true)
    if target and target.kind == "directory" then
        return "is a directory"
    elseif there and not target then
        return "is a link to a file that does not exist"
    elseif target and target.kind ~= "file" then
        return nil -- opening a device or a pipe may change it
    end
    local probe = (target and target.path or path) .. PROBE
    local ok, message, code = private.write(probe, "", true)
    if ok then
        os.remove(probe)
    elseif code ~= "EXISTS" then
        return "cannot be written: " .. message:sub(#probe + 3)
    end
end

---Ends the command if the files that flags name cannot be written.
---@param given table the flags
---@param names string[] of flags; only one of them may be "-", standard output
---@return boolean to_stdout whether one of them is
function outputs.check(given, names)
    local flag_of = {}
    for _, name in ipairs(names) do
        local path, flag = given[name], args.flag(name)
        cli.refuse(path and flag_of[path] and ("%s and %s name the same file: %s"):format(
            flag_of[path], flag, path))
        local problem = path and path ~= "-" and not files.is_offline() and problem_of(path)
        cli.refuse(problem and ("%s: %s %s"):format(flag, path, problem))
        flag_of[path or false] = flag
    end
    return flag_of["-"] ~= nil
end

---Writes to the file of --output, whole or not at all; without it, or with "-", to standard output.
---Ends the command if the file cannot be written.
---@param write fun(out: table) see file.replace; the host reports errors of standard output
function outputs.stream(path, write)
    if (path or "-") == "-" then
        write(io.stdout)
    else
        cli.need(file.replace(path, write))
    end
end

---Writes a file whole or not at all; a device or a pipe in place. A replay writes none.
---@param path string "-": standard output
---@return true?
---@return string? message
---@return string? code
function outputs.write(path, text)
    if path == "-" then
        io.stdout:write(terminal.is_terminal(1) and quote.terminal(text) or text)
    elseif files.is_offline() then
        io.stderr:write("ponder: a replay writes no file: ", path, "\n")
    else
        return file.replace(path, function(out) out:write(text) end)
    end
    return true
end

return outputs
