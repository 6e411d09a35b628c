/** What people read on the page, in English. One object a part of the page; where a number or a name comes in, a function. */

export const SHELF = {};

export const DASHBOARD = {};

export const CROWD = {};
