// The only script of the pages: everything readable works without it.
import { copyButtons } from "./copy.js";
import { keepLive } from "./live.js";
import { searchAsYouType } from "./search.js";
import { reviewKeys } from "./keys.js";

copyButtons();
keepLive();
searchAsYouType();
reviewKeys();
