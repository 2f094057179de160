--- `ponder run FILE|- [ARG...]` and `ponder -e CODE`: runs a script.

local args = require "ponder.args"
local cli = require "ponder.cli"
local host = require "ponder.core.host"
local json = require "ponder.json"

local RULES = {
    e = { value = "CODE", help = "run CODE in place of a file" },
    json = { help = "print the table that the script returns, as JSON" },
    max_memory_mb = { value = "N", type = "integer", min = 1, max = 1 << 30,
        help = "limit of the script's memory in MiB (default: 3/4 of the machine's)" },
}

local run = {}

run.summary = "run a script (FILE, or - for standard input)"

run.usage = [[
ponder run [OPTION...] FILE|- [ARG...]
ponder [OPTION...] FILE [ARG...]
ponder -e CODE [ARG...]

Runs a Lua 5.4 script. It has Lua's standard library, cjson, ponder's modules (require
"ponder.search") and the modules beside it; its arguments are in `...` and in `arg`.

]] .. args.help(RULES, { "e", "json", "max_memory_mb" })

-- The text of a script file, or nil and why there is none.
local function check_readable(path)
    local file, message = io.open(path, "rb")
    if not file then
        return nil, message
    end
    local start, err = file:read(4)
    file:close()
    if err then
        return nil, ("%s: expected a script (got: %s)"):format(path, err)
    elseif start == "\27Lua" then
        return nil, path .. ": binary Lua code is refused; expected the script's text"
    end
    return true
end

-- The chunk of a file, of standard input or of -e, or nil, message, status.
local function load_script(opts, path)
    if opts.e then
        local chunk, message = load(opts.e, "=(command line)")
        return chunk, message, 1
    elseif path == "-" then
        local text = io.read("a") or ""
        local chunk, message = load(text:gsub("^#[^\n]*", "", 1), "=stdin")
        return chunk, message, 1
    end
    local readable, message = check_readable(path)
    if not readable then
        return nil, message, 2
    end
    host.set_script_folder(assert(host.absolute(path)):match("^(.*)/") or "/")
    local chunk, syntax_error = loadfile(path)
    return chunk, syntax_error, 1
end

-- `arg` as the lua command sets it: the script (list[at]) at 0, what stood before it below.
local function set_arg(list, at)
    arg = {}
    for i = -1, #list do
        arg[i - at] = list[i]
    end
end

-- What was probably meant by a file that is not there: a command, if it looks like one.
local function no_such_file(path, message)
    local near = not path:find("[./]") and cli.nearest_command(path)
    return cli.usage_error(("ponder: %s%s"):format(message,
        near and (" (did you mean the command %s?)"):format(near) or ""))
end

---Runs the script that the arguments name.
---@param list string[] arguments; below 1 what stood before them
---@return integer status
function run.run(list)
    local opts, operands, first = args.parse("ponder run", list, RULES, { stops_at_operand = true })
    if not opts then
        return cli.usage_error(operands)
    elseif not opts.e and not operands[1] then
        return cli.usage_error("ponder run: expected a script: ponder run FILE|- [ARG...]")
    end
    if opts.max_memory_mb then
        host.limit_memory(opts.max_memory_mb)
    end
    local path = operands[1]
    local chunk, message, status = load_script(opts, path)
    if not chunk then
        if status == 2 then
            return no_such_file(path, message)
        end
        io.stderr:write("ponder: ", message, "\n")
        return status
    end
    set_arg(list, opts.e and (first or #list + 1) - 1 or first)
    local ok, result = xpcall(chunk, cli.with_traceback,
        table.unpack(operands, opts.e and 1 or 2))
    if not ok then
        return cli.report_error(result)
    elseif opts.json then
        print(json.encode(result))
    end
    return 0
end

return run
