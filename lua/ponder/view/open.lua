--- Opens a page in the user's browser.
---
--- Other users can read a process's arguments, so the browser gets not the URL, which holds a
--- token, but a file that redirects to it and that only its owner can read.

local private = require "ponder.core.private"
local quote = require "ponder.quote"

local open = {}

local PAGE = [[<!DOCTYPE html><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url=%s"><title>ponder</title>
]]

local function program()
    local browser = os.getenv "BROWSER"
    if browser and browser ~= "" then
        return browser:match "^[^:]+"
    end
    local has_display = os.getenv "DISPLAY" or os.getenv "WAYLAND_DISPLAY"
    return has_display and "xdg-open" or nil
end

---Opens a browser with $BROWSER or xdg-open, without waiting for it.
---@param url string
---@return table? opened to be closed when the page has ended; nil: there is no display
function open.browser(url)
    local command = program()
    if not command then
        return nil
    end
    local path = os.tmpname()
    os.remove(path)
    path = path .. ".html"
    if not private.write(path, PAGE:format(url), true) then
        return nil
    end
    os.execute(("%s %s >/dev/null 2>&1 </dev/null &"):format(quote.shell(command),
        quote.shell(path)))
    return setmetatable({}, { __close = function() os.remove(path) end })
end

return open
